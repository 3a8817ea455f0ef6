package io.millrace.job.progress;

import java.util.ArrayDeque;

/** How fast a growing count grew over the recent past. A count that falls (after a restart) begins anew. One thread. */
final class RateWindow {

    private record Point(long nanos, long count) {}

    private final long windowNanos;
    private final ArrayDeque<Point> points = new ArrayDeque<>();

    RateWindow(long windowNanos) {
        this.windowNanos = windowNanos;
    }

    void add(long nanos, long count) {
        if (!points.isEmpty() && count < points.getLast().count()) {
            points.clear();
        }
        points.addLast(new Point(nanos, count));
        // The oldest point kept is the last one at or before the window's begin.
        while (points.size() > 2 && secondOldest().nanos() <= nanos - windowNanos) {
            points.removeFirst();
        }
    }

    double perSecond() {
        if (points.size() < 2) {
            return 0;
        }
        long nanos = points.getLast().nanos() - points.getFirst().nanos();
        return nanos <= 0 ? 0 : (points.getLast().count() - points.getFirst().count()) * 1e9 / nanos;
    }

    private Point secondOldest() {
        var iterator = points.iterator();
        iterator.next();
        return iterator.next();
    }
}
