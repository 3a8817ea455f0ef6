package io.millrace.plan;

import java.util.Locale;

/** Numbers with their units as plans print them: powers of 1000, rounded half up. */
final class Quantities {
    private static final String[] PREFIXES = {"", "k", "M", "G", "T", "P", "E"};

    private Quantities() {}

    /** For example 16.06 GB. */
    static String bytes(double value) {
        return scaled(value, "B");
    }

    /** For example 3.35 TB/s. */
    static String bytesPerSecond(double value) {
        return scaled(value, "B/s");
    }

    /** For example 989.00 TFLOP/s. */
    static String flopsPerSecond(double value) {
        return scaled(value, "FLOP/s");
    }

    /** Milliseconds to two decimals, more below 1. */
    static String milliseconds(double seconds) {
        double value = seconds * 1e3;
        String format = value >= 1 || value == 0 ? "%,.2f ms" : value >= 0.01 ? "%.3f ms" : "%.2g ms";
        return String.format(Locale.ROOT, format, value);
    }

    /** A count with thousands separated. */
    static String count(long value) {
        return String.format(Locale.ROOT, "%,d", value);
    }

    /** A whole number where it is one, else to three decimals at most. */
    static String plain(double value) {
        return value == Math.rint(value) && Math.abs(value) < 1e15
                ? String.format(Locale.ROOT, "%,d", (long) value)
                : String.format(Locale.ROOT, "%,.3f", value).replaceFirst("0+$", "");
    }

    static String fixed(double value, int numDecimals) {
        return String.format(Locale.ROOT, "%,." + numDecimals + "f", value);
    }

    private static String scaled(double value, String unit) {
        double number = value;
        int power = 0;
        while (number >= 999.995 && power < PREFIXES.length - 1) {
            number /= 1000;
            power++;
        }
        return power == 0
                ? String.format(Locale.ROOT, "%.0f %s", number, unit)
                : String.format(Locale.ROOT, "%.2f %s%s", number, PREFIXES[power], unit);
    }
}
