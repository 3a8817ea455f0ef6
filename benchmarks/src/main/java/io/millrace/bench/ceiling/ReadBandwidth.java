package io.millrace.bench.ceiling;

import java.util.Arrays;

/** Streaming reads by all threads at once over buffers far larger than the caches. Used by one thread. */
public final class ReadBandwidth {
    private static final long TOTAL_BYTES = 512L << 20;

    private final Crew crew;
    private final long[][] buffers;
    private final long[] sums;

    public ReadBandwidth(Crew crew) {
        this.crew = crew;
        this.buffers = new long[crew.numThreads()][];
        this.sums = new long[crew.numThreads()];
        int length = (int) (TOTAL_BYTES / crew.numThreads() / Long.BYTES / 8 * 8);
        crew.run(member -> {
            buffers[member] = new long[length];
            Arrays.fill(buffers[member], member + 1L); // written by its reader, so that pages lie near it
        });
        for (int i = 0; i < 3; i++) {
            bytesPerSecond();
        }
    }

    /** Bytes that a pass reads. */
    public long bytes() {
        return (long) buffers.length * buffers[0].length * Long.BYTES;
    }

    /** One pass over everything. */
    public double bytesPerSecond() {
        double seconds = crew.run(member -> sums[member] += sum(buffers[member]));
        if (Arrays.stream(sums).anyMatch(sum -> sum == 0)) {
            throw new IllegalStateException("the buffers read as zero"); // keeps the reads from being optimised away
        }
        return bytes() / seconds;
    }

    /** Eight independent sums: one would wait for itself. */
    private static long sum(long[] values) {
        long a = 0;
        long b = 0;
        long c = 0;
        long d = 0;
        long e = 0;
        long f = 0;
        long g = 0;
        long h = 0;
        for (int i = 0; i < values.length; i += 8) {
            a += values[i];
            b += values[i + 1];
            c += values[i + 2];
            d += values[i + 3];
            e += values[i + 4];
            f += values[i + 5];
            g += values[i + 6];
            h += values[i + 7];
        }
        return a + b + c + d + e + f + g + h;
    }
}
