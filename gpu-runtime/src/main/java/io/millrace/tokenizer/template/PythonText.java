package io.millrace.tokenizer.template;

import java.math.BigDecimal;

/** Python's notions of white space, string literals and number texts, which templates count on. */
final class PythonText {
    private PythonText() {}

    /** str.isspace of one character. */
    static boolean isSpace(char c) {
        return c >= '\t' && c <= '\r'
                || c >= 0x1C && c <= ' '
                || c == 0x85
                || c == 0xA0
                || c == 0x1680
                || c >= 0x2000 && c <= 0x200A
                || c == 0x2028
                || c == 0x2029
                || c == 0x202F
                || c == 0x205F
                || c == 0x3000;
    }

    /** The length of the text without the white space at its end. */
    static int endWithoutSpace(String text) {
        int end = text.length();
        while (end > 0 && isSpace(text.charAt(end - 1))) {
            end--;
        }
        return end;
    }

    /** Resolves the escapes of a string literal; unknown ones stay as they are. */
    static String unescape(String literal) {
        if (literal.indexOf('\\') < 0) {
            return literal;
        }
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < literal.length(); i++) {
            char c = literal.charAt(i);
            if (c != '\\' || i + 1 == literal.length()) {
                out.append(c);
                continue;
            }
            char escape = literal.charAt(++i);
            int simple = "\\'\"abfnrtv".indexOf(escape);
            int numDigits = escape == 'x' ? 2 : escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
            if (simple >= 0) {
                out.append("\\'\"\u0007\b\f\n\r\t\u000B".charAt(simple));
            } else if (numDigits > 0 && i + numDigits < literal.length()) {
                out.appendCodePoint(Integer.parseInt(literal.substring(i + 1, i + 1 + numDigits), 16));
                i += numDigits;
            } else if (escape == '0') {
                out.append('\0');
            } else if (escape != '\n') {
                out.append('\\').append(escape);
            }
        }
        return out.toString();
    }

    /** repr of a float: the shortest decimal, in exponent form outside 1e-4 … 1e16. */
    static String of(double value) {
        if (Double.isNaN(value)) {
            return "nan";
        }
        if (Double.isInfinite(value)) {
            return value > 0 ? "inf" : "-inf";
        }
        double size = Math.abs(value);
        if (size == 0 || size >= 1e-4 && size < 1e16) {
            String plain = new BigDecimal(Double.toString(value)).toPlainString();
            String sign = size == 0 && 1 / value < 0 && !plain.startsWith("-") ? "-" : "";
            return sign + (plain.contains(".") ? plain : plain + ".0");
        }
        BigDecimal decimal = new BigDecimal(Double.toString(value)).stripTrailingZeros();
        String digits = decimal.unscaledValue().abs().toString();
        int exponent = digits.length() - 1 - decimal.scale();
        String mantissa = digits.length() == 1 ? digits : digits.charAt(0) + "." + digits.substring(1);
        return (value < 0 ? "-" : "") + mantissa + "e" + (exponent < 0 ? "-" : "+")
                + (Math.abs(exponent) < 10 ? "0" : "") + Math.abs(exponent);
    }

    /** repr of a string. */
    static MarkedText quote(MarkedText text) {
        String chars = text.toString();
        char quote = chars.indexOf('\'') >= 0 && chars.indexOf('"') < 0 ? '"' : '\'';
        MarkedText.Builder out = new MarkedText.Builder();
        MarkedText border = MarkedText.template(String.valueOf(quote));
        out.append(border);
        for (int i = 0; i < chars.length(); i++) {
            char c = chars.charAt(i);
            String escaped = c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : c == '\\' ? "\\\\" : null;
            if (c == quote) {
                escaped = "\\" + c;
            } else if (escaped == null && (c < ' ' || c >= 0x7F && c < 0xA0)) {
                escaped = String.format("\\x%02x", (int) c);
            }
            MarkedText one = text.substring(i, i + 1);
            out.append(escaped == null ? one : one.withCharacters(escaped));
        }
        return out.append(border).build();
    }
}
