package io.millrace.job.cli;

import java.math.BigDecimal;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** A number of bytes with vLLM's suffixes: k, m, g, t are powers of 1000; K, M, G, T and Ki, Mi, Gi, Ti powers of 1024. */
final class ByteSizeConverter implements ITypeConverter<Long> {

    private static final Pattern SIZE = Pattern.compile("([0-9]+(?:\\.[0-9]+)?)([kmgtKMGT]|[KMGT]i)?[bB]?");
    private static final Map<Character, Integer> POWERS = Map.of('k', 1, 'm', 2, 'g', 3, 't', 4);

    @Override
    public Long convert(String value) {
        Matcher matcher = SIZE.matcher(value.strip());
        if (!matcher.matches()) {
            throw new TypeConversionException("'" + value
                    + "' is not a number of bytes; write for example 2g (2,000,000,000) or 2Gi (2,147,483,648)");
        }
        BigDecimal number = new BigDecimal(matcher.group(1));
        String suffix = matcher.group(2);
        if (suffix != null) {
            boolean decimal = suffix.length() == 1 && Character.isLowerCase(suffix.charAt(0));
            int power = POWERS.get(Character.toLowerCase(suffix.charAt(0)));
            number = number.multiply(BigDecimal.valueOf(decimal ? 1000 : 1024).pow(power));
        }
        if (number.compareTo(BigDecimal.valueOf(Long.MAX_VALUE)) > 0) {
            throw new TypeConversionException("'" + value + "' is more than 8 Ei; write for example 2Gi");
        }
        return number.longValue();
    }
}
