package io.millrace.bench.ceiling;

/** Something that can be computed again and again in one of several ways. Used by one thread. */
interface Pass extends AutoCloseable {
    /** Computes it once; returns the seconds that took. */
    double seconds();

    /** The way, in words. */
    String describe();

    @Override
    void close();
}
