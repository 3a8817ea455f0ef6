package io.millrace.operators.inference;

import io.millrace.schemas.LedgerRequest;
import java.util.Comparator;
import java.util.PriorityQueue;

/**
 * Which requests wait for room in the engine, in order of admission: those that had begun before a restore, then by
 * priority, then by arrival. Only coordinates are held here; the records lie in keyed state, on disk. Task thread only.
 */
final class WaitingRequests {
    private static final Comparator<Waiting> ORDER = Comparator.comparing((Waiting w) -> !w.begun)
            .thenComparingInt(w -> w.priority)
            .thenComparingLong(w -> w.arrival)
            .thenComparing(w -> w.uid);

    private final PriorityQueue<Waiting> queue = new PriorityQueue<>(ORDER);
    private final PriorityQueue<Waiting> postponed = new PriorityQueue<>(ORDER);

    /** Coordinates of a waiting request: its key and its uid in the key's maps. */
    record Waiting(long key, String uid, int numSamples, int priority, long arrival, boolean begun) {}

    void add(LedgerRequest request, boolean begun) {
        add(new Waiting(
                request.getRequest().getRoutingKey(),
                request.getRequest().getUid(),
                request.getRequest().getSampling().getN(),
                request.getRequest().getPriority(),
                request.getArrival(),
                begun));
    }

    void add(Waiting request) {
        queue.add(request);
    }

    /** The next in line: one that is postponed only where no other waits. */
    Waiting first() {
        return queue.isEmpty() ? postponed.peek() : queue.peek();
    }

    Waiting removeFirst() {
        return queue.isEmpty() ? postponed.remove() : queue.remove();
    }

    /** Puts the next in line behind all others; false where there are no others. */
    boolean postponeFirst() {
        if (queue.isEmpty()) {
            return false;
        }
        postponed.add(queue.remove());
        return true;
    }

    /** Puts what was postponed back in its place. */
    void recallPostponed() {
        queue.addAll(postponed);
        postponed.clear();
    }

    boolean isEmpty() {
        return queue.isEmpty() && postponed.isEmpty();
    }

    int size() {
        return queue.size() + postponed.size();
    }
}
