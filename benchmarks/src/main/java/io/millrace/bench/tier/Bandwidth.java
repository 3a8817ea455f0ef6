package io.millrace.bench.tier;

import java.util.SplittableRandom;

/** What a link carries, by time. One thread. */
public interface Bandwidth {
    /** When a transfer that begins at a time has carried so many bytes. */
    long finishNanos(long startNanos, double numBytes);

    /** The same all the time. */
    static Bandwidth constant(double gbps) {
        double bytesPerNano = gbps / Byte.SIZE;
        return (start, numBytes) -> start + Math.round(numBytes / bytesPerNano);
    }

    /** Drawn anew for every period, each from 0 to a maximum as likely. */
    static Bandwidth redrawn(double maxGbps, long periodNanos, long seed) {
        return (start, numBytes) -> {
            long nanos = start;
            double left = numBytes;
            while (true) {
                long period = nanos / periodNanos;
                double bytesPerNano = uniform(seed, period) * maxGbps / Byte.SIZE;
                double carried = bytesPerNano * ((period + 1) * periodNanos - nanos);
                if (carried >= left) {
                    return nanos + Math.round(left / bytesPerNano);
                }
                left -= carried;
                nanos = (period + 1) * periodNanos;
            }
        };
    }

    /** A number of [0, 1) that a period has, whoever asks. */
    static double uniform(long seed, long period) {
        return new SplittableRandom(seed * 0x9E3779B97F4A7C15L + period).nextDouble();
    }
}
