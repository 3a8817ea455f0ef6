package io.millrace.tokenizer.template;

import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Locale;

/** strftime, with the directives that have a locale-free meaning. */
final class PythonTime {
    private PythonTime() {}

    static String format(String format, ZonedDateTime time) {
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < format.length(); i++) {
            char c = format.charAt(i);
            if (c != '%' || i + 1 == format.length()) {
                out.append(c);
                continue;
            }
            boolean unpadded = format.charAt(i + 1) == '-' && i + 2 < format.length();
            i += unpadded ? 2 : 1;
            String value = directive(format.charAt(i), time);
            out.append(unpadded ? value.replaceFirst("^0+(?=.)", "") : value);
        }
        return out.toString();
    }

    private static String directive(char directive, ZonedDateTime time) {
        String pattern = switch (directive) {
            case 'Y' -> "uuuu";
            case 'y' -> "uu";
            case 'm' -> "MM";
            case 'd' -> "dd";
            case 'B' -> "MMMM";
            case 'b', 'h' -> "MMM";
            case 'A' -> "EEEE";
            case 'a' -> "EEE";
            case 'H' -> "HH";
            case 'I' -> "hh";
            case 'M' -> "mm";
            case 'S' -> "ss";
            case 'f' -> "SSSSSS";
            case 'p' -> "a";
            case 'j' -> "DDD";
            case 'Z' -> "zzz";
            case 'z' -> "xx";
            case 'F' -> "uuuu-MM-dd";
            case 'T' -> "HH:mm:ss";
            case '%' -> "'%'";
            default -> throw new TemplateException("strftime_now does not know the directive %" + directive);
        };
        return DateTimeFormatter.ofPattern(pattern, Locale.ENGLISH).format(time);
    }
}
