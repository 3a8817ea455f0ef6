package io.millrace.bench.tier;

/**
 * Lets bytes through at a rate. What was not used while nobody asked is kept as far as the bucket holds. Any thread; times are
 * the caller's, so that any clock will do.
 */
public final class TokenBucket {
    private final double bytesPerNano;
    private final double maxBytes;
    private double bytes; // may be negative: what is let through is paid for afterwards
    private long asOfNanos;

    /**
     * A bucket, full at the beginning.
     *
     * @param bytesPerSecond the rate
     * @param maxBytes most that it holds
     */
    public TokenBucket(double bytesPerSecond, double maxBytes, long nowNanos) {
        if (!(bytesPerSecond > 0) || !(maxBytes >= 0)) {
            throw new IllegalArgumentException("a bucket of " + maxBytes + " bytes at " + bytesPerSecond
                    + " bytes a second: the rate must be positive, the size not negative");
        }
        this.bytesPerNano = bytesPerSecond / 1e9;
        this.maxBytes = maxBytes;
        this.bytes = maxBytes;
        this.asOfNanos = nowNanos;
    }

    /** Takes bytes out; returns from which time on they may pass. Callers are served in the order in which they ask. */
    public synchronized long take(long numBytes, long nowNanos) {
        long now = Math.max(nowNanos, asOfNanos);
        bytes = Math.min(maxBytes, bytes + (now - asOfNanos) * bytesPerNano) - numBytes;
        asOfNanos = now;
        return bytes >= 0 ? now : now + (long) Math.ceil(-bytes / bytesPerNano);
    }
}
