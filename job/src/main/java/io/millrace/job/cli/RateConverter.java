package io.millrace.job.cli;

import java.math.BigDecimal;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** A rate per second with a decimal suffix: k, m, g, t, p are powers of 1000, as data sheets count. */
final class RateConverter implements ITypeConverter<Double> {

    private static final String SUFFIXES = "kmgtp";
    private static final Pattern RATE = Pattern.compile("([0-9]{1,18}(?:\\.[0-9]{1,18})?)([" + SUFFIXES + "])?(?:/s)?");

    @Override
    public Double convert(String value) {
        Matcher matcher = RATE.matcher(value.strip());
        if (!matcher.matches() || new BigDecimal(matcher.group(1)).signum() == 0) {
            throw new TypeConversionException("'" + value
                    + "' is not a rate above 0; write for example 3.35t (3,350,000,000,000 a second) or 50g");
        }
        int power = matcher.group(2) == null ? 0 : 1 + SUFFIXES.indexOf(matcher.group(2));
        return new BigDecimal(matcher.group(1)).scaleByPowerOfTen(3 * power).doubleValue();
    }
}
