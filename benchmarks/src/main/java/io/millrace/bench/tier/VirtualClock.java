package io.millrace.bench.tier;

import java.util.PriorityQueue;
import java.util.function.LongSupplier;

/**
 * Time that passes only when told to. What is due happens on the way, at its own time and in order. One thread.
 */
public final class VirtualClock implements LongSupplier {
    private record Event(long nanos, long number, Runnable action) implements Comparable<Event> {
        @Override
        public int compareTo(Event other) {
            return nanos != other.nanos ? Long.compare(nanos, other.nanos) : Long.compare(number, other.number);
        }
    }

    private final PriorityQueue<Event> events = new PriorityQueue<>();
    private long nowNanos;
    private long numEvents;

    /** Nanoseconds since the clock was made. */
    @Override
    public long getAsLong() {
        return nowNanos;
    }

    /** Has something happen at a time; one that has passed counts as now. */
    public void schedule(long nanos, Runnable action) {
        events.add(new Event(Math.max(nanos, nowNanos), numEvents++, action));
    }

    /** Lets time pass; at 0 what is due now happens. */
    public void advance(long nanos) {
        long end = nowNanos + nanos;
        while (!events.isEmpty() && events.peek().nanos() <= end) {
            Event event = events.poll();
            nowNanos = event.nanos();
            event.action().run();
        }
        nowNanos = end;
    }

    /** Lets time pass until the next thing has happened; false when nothing is to come. */
    public boolean advanceToNext() {
        if (events.isEmpty()) {
            return false;
        }
        advance(events.peek().nanos() - nowNanos);
        return true;
    }
}
