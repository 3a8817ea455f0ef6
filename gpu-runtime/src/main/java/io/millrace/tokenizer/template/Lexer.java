package io.millrace.tokenizer.template;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Splits a template into text and the tokens of its tags. White space as transformers sets it: trim_blocks and
 * lstrip_blocks on, one line end at the template's end dropped, "-" and "+" at a tag's borders as in Jinja.
 */
final class Lexer {
    enum Kind {
        TEXT,
        BLOCK_BEGIN,
        BLOCK_END,
        OUTPUT_BEGIN,
        OUTPUT_END,
        NAME,
        INTEGER,
        FLOAT,
        STRING,
        OPERATOR,
        END
    }

    /** A token with its text (strings unescaped) and line, from 1. */
    record Token(Kind kind, String text, int line) {
        boolean is(Kind wanted, String wantedText) {
            return kind == wanted && text.equals(wantedText);
        }
    }

    private static final Pattern RAW_BEGIN = Pattern.compile("\\{%[-+]?\\s*raw\\s*(?:-%\\}\\s*|%\\})");
    private static final Pattern RAW_END = Pattern.compile("\\{%([-+]?)\\s*endraw\\s*(?:\\+%\\}|-%\\}\\s*|%\\}\\n?)");
    private static final Pattern COMMENT_END = Pattern.compile("\\+#\\}|-#\\}\\s*|#\\}\\n?");
    private static final Pattern BLOCK_END = Pattern.compile("\\+%\\}|-%\\}\\s*|%\\}\\n?");
    private static final Pattern OUTPUT_END = Pattern.compile("-\\}\\}\\s*|\\}\\}");
    private static final Pattern NUMBER =
            Pattern.compile("0[xX][0-9a-fA-F]+|\\d[\\d_]*(?:\\.\\d[\\d_]*)?(?:[eE][+-]?\\d+)?");
    private static final Pattern STRING =
            Pattern.compile("'([^'\\\\]*(?:\\\\.[^'\\\\]*)*)'|\"([^\"\\\\]*(?:\\\\.[^\"\\\\]*)*)\"", Pattern.DOTALL);
    private static final Pattern NAME = Pattern.compile("[\\p{L}_][\\p{L}\\p{M}\\p{N}_]*");
    private static final Pattern OPERATOR = Pattern.compile("//|\\*\\*|==|!=|>=|<=|[-+/*%~\\[\\](){}><=.:|,;]");

    private final String source;
    private final List<Token> tokens = new ArrayList<>();
    private int at;
    private int line = 1;
    private boolean lineStarting = true;

    Lexer(String template) {
        String unified = template.replace("\r\n", "\n").replace('\r', '\n');
        source = unified.endsWith("\n") ? unified.substring(0, unified.length() - 1) : unified;
    }

    List<Token> tokens() {
        while (at < source.length()) {
            int tag = nextTag();
            if (tag < 0) {
                text(source.substring(at));
                break;
            }
            Matcher raw = RAW_BEGIN.matcher(source).region(tag, source.length());
            text(stripBefore(tag));
            skipTo(tag);
            if (source.charAt(tag + 1) == '#') {
                end(COMMENT_END, tag + 2, "comment");
            } else if (raw.lookingAt()) {
                raw(raw.end());
            } else {
                tag(source.charAt(tag + 1) == '%');
            }
        }
        tokens.add(new Token(Kind.END, "end of template", line));
        return tokens;
    }

    private int nextTag() {
        for (int i = source.indexOf('{', at); i >= 0 && i + 1 < source.length(); i = source.indexOf('{', i + 1)) {
            char second = source.charAt(i + 1);
            if (second == '{' || second == '%' || second == '#') {
                return i;
            }
        }
        return -1;
    }

    private String stripBefore(int tag) {
        String text = source.substring(at, tag);
        char sign = tag + 2 < source.length() ? source.charAt(tag + 2) : ' ';
        if (sign == '-') {
            return text.substring(0, PythonText.endWithoutSpace(text));
        }
        if (sign == '+' || source.charAt(tag + 1) == '{') {
            return text;
        }
        int lineStart = text.lastIndexOf('\n') + 1;
        boolean onlySpace = PythonText.endWithoutSpace(text) <= lineStart;
        return (lineStart > 0 || lineStarting) && onlySpace ? text.substring(0, lineStart) : text;
    }

    private void text(String text) {
        if (!text.isEmpty()) {
            tokens.add(new Token(Kind.TEXT, text, line));
        }
    }

    private void raw(int contentStart) {
        Matcher end = RAW_END.matcher(source);
        if (!end.find(contentStart)) {
            throw new TemplateException("{% raw %} without {% endraw %}", line, null);
        }
        String content = source.substring(contentStart, end.start());
        text(end.group(1).equals("-") ? content.substring(0, PythonText.endWithoutSpace(content)) : content);
        close(end);
    }

    private void end(Pattern pattern, int from, String what) {
        Matcher end = pattern.matcher(source);
        if (!end.find(from)) {
            throw new TemplateException("unclosed " + what, line, null);
        }
        close(end);
    }

    private void close(Matcher end) {
        lineStarting = end.group().endsWith("\n");
        skipTo(end.end());
    }

    private void skipTo(int position) {
        for (int i = at; i < position; i++) {
            if (source.charAt(i) == '\n') {
                line++;
            }
        }
        at = position;
    }

    private void tag(boolean block) {
        tokens.add(new Token(block ? Kind.BLOCK_BEGIN : Kind.OUTPUT_BEGIN, block ? "{%" : "{{", line));
        int start = at + 2;
        boolean signed = start < source.length() && (source.charAt(start) == '-' || source.charAt(start) == '+');
        skipTo(signed ? start + 1 : start);
        Pattern endPattern = block ? BLOCK_END : OUTPUT_END;
        Deque<Character> open = new ArrayDeque<>();
        while (true) {
            while (at < source.length() && Character.isWhitespace(source.charAt(at))) {
                skipTo(at + 1);
            }
            if (at >= source.length()) {
                throw new TemplateException("unclosed " + (block ? "{%" : "{{"), line, null);
            }
            Matcher end = endPattern.matcher(source).region(at, source.length());
            if (open.isEmpty() && end.lookingAt()) {
                tokens.add(new Token(block ? Kind.BLOCK_END : Kind.OUTPUT_END, block ? "%}" : "}}", line));
                close(end);
                return;
            }
            token(open);
        }
    }

    private void token(Deque<Character> open) {
        char c = source.charAt(at);
        if (c == '\'' || c == '"') {
            Matcher string = match(STRING, "unclosed string");
            String body = string.group(1) != null ? string.group(1) : string.group(2);
            emit(Kind.STRING, PythonText.unescape(body), string.end());
        } else if (c >= '0' && c <= '9') {
            Matcher number = match(NUMBER, "malformed number");
            String digits = number.group().replace("_", "");
            boolean hexadecimal = digits.startsWith("0x") || digits.startsWith("0X");
            boolean fraction = !hexadecimal && digits.matches(".*[.eE].*");
            emit(fraction ? Kind.FLOAT : Kind.INTEGER, digits, number.end());
        } else if (NAME.matcher(source).region(at, source.length()).lookingAt()) {
            Matcher name = match(NAME, "name");
            emit(Kind.NAME, name.group(), name.end());
        } else {
            Matcher operator = match(OPERATOR, "unexpected character '" + c + "'");
            balance(operator.group().charAt(0), open);
            emit(Kind.OPERATOR, operator.group(), operator.end());
        }
    }

    private void balance(char c, Deque<Character> open) {
        if (c == '(' || c == '[' || c == '{') {
            open.push(c == '(' ? ')' : (char) (c + 2));
        } else if (c == ')' || c == ']' || c == '}') {
            if (open.isEmpty() || open.pop() != c) {
                throw new TemplateException("unexpected '" + c + "'", line, null);
            }
        }
    }

    private Matcher match(Pattern pattern, String fault) {
        Matcher matcher = pattern.matcher(source).region(at, source.length());
        if (!matcher.lookingAt()) {
            throw new TemplateException(fault, line, null);
        }
        return matcher;
    }

    private void emit(Kind kind, String text, int end) {
        tokens.add(new Token(kind, text, line));
        skipTo(end);
    }
}
