package io.millrace.operators.tier;

import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierMiss;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Keeps a store's answers by ticket, and waits for them; counts the arrays that it has handed out. */
final class Received implements PrefixStore.Answers {
    private static final long WAIT_MILLIS = 20_000;

    private final Map<Long, Object> answers = new ConcurrentHashMap<>();
    private final Map<Long, TierMiss> misses = new ConcurrentHashMap<>();
    private final Set<byte[][]> handedOut = Collections.newSetFromMap(new IdentityHashMap<>()); // guarded by this

    @Override
    public void found(long ticket, int numChunks) {
        add(ticket, numChunks);
    }

    @Override
    public void loaded(long ticket, byte[][] pieces) {
        synchronized (this) {
            if (!handedOut.remove(pieces)) {
                throw new AssertionError("ticket " + ticket + " is answered with arrays of the store's own");
            }
        }
        add(ticket, pieces);
    }

    @Override
    public byte[][] arraysFor(int[] pieceBytes) {
        byte[][] arrays = PrefixStore.Answers.super.arraysFor(pieceBytes);
        synchronized (this) {
            handedOut.add(arrays);
        }
        return arrays;
    }

    @Override
    public synchronized void gaveBack(byte[][] pieces) {
        handedOut.remove(pieces); // not there: of a chunk that was to be kept
    }

    /** Arrays that the store has for loads. */
    synchronized int numHandedOut() {
        return handedOut.size();
    }

    @Override
    public void missed(long ticket, TierMiss reason, String text) {
        misses.put(ticket, reason);
        add(ticket, text);
    }

    private synchronized void add(long ticket, Object answer) {
        if (answers.put(ticket, answer) != null) {
            throw new AssertionError("ticket " + ticket + " is answered twice");
        }
        notifyAll();
    }

    boolean has(long ticket) {
        return answers.containsKey(ticket);
    }

    private synchronized Object await(long ticket) {
        long deadline = System.currentTimeMillis() + WAIT_MILLIS;
        while (!answers.containsKey(ticket)) {
            long left = deadline - System.currentTimeMillis();
            if (left <= 0) {
                throw new AssertionError("ticket " + ticket + " was not answered");
            }
            try {
                wait(left);
            } catch (InterruptedException e) {
                throw new AssertionError("interrupted", e);
            }
        }
        return answers.get(ticket);
    }

    int numFound(long ticket) {
        return (Integer) await(ticket);
    }

    /** The pieces, or null if it was a miss. */
    byte[][] pieces(long ticket) {
        return await(ticket) instanceof byte[][] pieces ? pieces : null;
    }

    String missReason(long ticket) {
        return await(ticket) instanceof String reason ? reason : null;
    }

    /** Why it was a miss; null if it was none. */
    TierMiss miss(long ticket) {
        await(ticket);
        return misses.get(ticket);
    }
}
