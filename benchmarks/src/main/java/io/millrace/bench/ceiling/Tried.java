package io.millrace.bench.ceiling;

/**
 * A way to compute something that was tried while the fastest was looked for.
 *
 * @param way in words
 * @param seconds of its fastest pass
 */
public record Tried(String way, double seconds) {}
