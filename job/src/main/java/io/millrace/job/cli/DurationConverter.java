package io.millrace.job.cli;

import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** A duration with its unit: 500ms, 10s, 5m, 1h. */
final class DurationConverter implements ITypeConverter<Duration> {

    private static final Pattern DURATION = Pattern.compile("([0-9]{1,12})(ms|s|m|min|h)");

    @Override
    public Duration convert(String value) {
        Matcher matcher = DURATION.matcher(value.strip());
        if (!matcher.matches()) {
            throw new TypeConversionException(
                    "'" + value + "' is not a duration; write a number and a unit: 500ms, 10s, 5m, 1h");
        }
        long number = Long.parseLong(matcher.group(1));
        return switch (matcher.group(2)) {
            case "ms" -> Duration.ofMillis(number);
            case "s" -> Duration.ofSeconds(number);
            case "h" -> Duration.ofHours(number);
            default -> Duration.ofMinutes(number);
        };
    }
}
