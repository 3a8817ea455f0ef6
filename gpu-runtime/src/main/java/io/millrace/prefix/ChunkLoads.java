package io.millrace.prefix;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * Finds and loads of all requests on their way to the store and back. The engine thread says which chunks it wants, in which
 * order; they are asked for as the store has room, by the engine thread and, from within an answer, by the thread that
 * answers, which checks what came. What was heard waits for {@link #takeNews}. Loaded chunks that wait in memory are bounded:
 * half of the room is kept for requests whose blocks exist, so that prefetching for others never holds them up.
 *
 * <p>Tickets make late and doubled answers harmless: an answer whose ticket is not open is dropped, arrays and all, since a
 * doubled one may be about arrays that are in use. Other arrays are used again once nobody reads them. Any thread; the store
 * is called outside of the lock.
 */
final class ChunkLoads implements PrefixStore.Answers {
    private static final int FIND = -1;

    /** A chunk that is wanted; prefetched if the request has no blocks yet. */
    record Wanted(PrefixLoad load, int chunk, boolean prefetch) {}

    /**
     * What was heard of a load.
     *
     * @param chunk negative for the answer to a find
     * @param numFound the answer to a find
     * @param pieces null unless the chunk came and was found right
     * @param miss null unless it did not
     * @param doubt null unless it came and was refused
     */
    record News(PrefixLoad load, int chunk, int numFound, byte[][] pieces, TierMiss miss, ChunkDoubt doubt) {
        boolean isFind() {
            return chunk == FIND;
        }
    }

    private record Ticket(PrefixLoad load, int chunk, long askedNanos) {}

    private final PrefixStore store;
    private final ChunkCodec codec;
    private final LongSupplier clock;
    private final Runnable signal;
    private final long timeoutNanos;
    private final int maxChunks; // in flight or in memory
    private final int maxPrefetchedChunks;

    // Guarded by this.
    private final Map<Long, Ticket> tickets = new LinkedHashMap<>(); // in the order of asking
    private final List<Wanted> wanted = new ArrayList<>();
    private final LoadRate rate = new LoadRate();
    private final StoreHealth health = new StoreHealth();
    private List<News> news = new ArrayList<>();
    private long nextTicket = 1;
    private int numInFlight; // loads, not finds
    private int numHeld; // chunks in flight or in memory
    private long readingSince; // the first load in flight
    private long numBytesRead;

    /**
     * Loads of one engine.
     *
     * @param signal called after every answer, outside of the lock
     */
    ChunkLoads(PrefixStore store, ChunkCodec codec, TierConfig config, LongSupplier clock, Runnable signal) {
        this.store = store;
        this.codec = codec;
        this.clock = clock;
        this.signal = signal;
        timeoutNanos = config.loadTimeoutMillis() * 1_000_000L;
        maxChunks = (int) Math.max(2, Math.min(Integer.MAX_VALUE, config.maxBufferBytes() / codec.chunkBytes()));
        maxPrefetchedChunks = maxChunks / 2;
    }

    @Override
    public byte[][] arraysFor(int[] pieceBytes) {
        return codec.arraysFor(pieceBytes);
    }

    @Override
    public void gaveBack(byte[][] pieces) {
        codec.giveBack(pieces);
    }

    /** Asks what is stored of a prefix; false if the store is left alone just now. */
    boolean find(PrefixLoad load) {
        long now = clock.getAsLong();
        long ticket;
        synchronized (this) {
            if (!health.mayAsk(now)) {
                return false;
            }
            ticket = open(load, FIND, now);
            load.findTicket = ticket;
        }
        store.find(ticket, load.affinityKey(), load.keys());
        return true;
    }

    /** Says what is wanted now, in order of urgency, in place of what was wanted before. */
    void want(List<Wanted> chunks) {
        synchronized (this) {
            wanted.clear();
            for (Wanted chunk : chunks) {
                if (!chunk.load().closed && !chunk.load().unanswered.get(chunk.chunk())) {
                    wanted.add(chunk);
                }
            }
        }
        ask();
    }

    /** Takes what was heard since the last call; at most one look at every chunk. */
    List<News> takeNews() {
        synchronized (this) {
            List<News> taken = news;
            news = new ArrayList<>(0);
            for (News item : taken) {
                if (!item.isFind()) {
                    item.load().unanswered.clear(item.chunk());
                }
            }
            return taken;
        }
    }

    /** Takes back the pieces of a chunk that was taken out of a load and is of no more use here. */
    void release(byte[][] pieces) {
        synchronized (this) {
            numHeld--;
        }
        codec.giveBack(pieces);
    }

    /** Ends a load: nothing that is still on its way is waited for, and what came and was not taken is let go. */
    void close(PrefixLoad load) {
        List<Long> cancelled = new ArrayList<>();
        List<byte[][]> unused = load.takeAllArrived();
        synchronized (this) {
            load.closed = true;
            wanted.removeIf(chunk -> chunk.load() == load);
            tickets.forEach((ticket, asked) -> {
                if (asked.load() == load) {
                    cancelled.add(ticket);
                }
            });
            if (numInFlight > 0) {
                noteHeadGivenUp(cancelled);
            }
            cancelled.forEach(ticket -> forget(ticket, tickets.get(ticket)));
            for (News item : news) {
                if (item.load() == load && item.pieces() != null) {
                    unused.add(item.pieces());
                }
            }
            news.removeIf(item -> item.load() == load);
            numHeld -= unused.size();
        }
        unused.forEach(codec::giveBack);
        cancelled.forEach(store::cancel);
        ask();
    }

    /** Gives up what has not been answered for too long. */
    void expire() {
        long now = clock.getAsLong();
        List<Long> expired = new ArrayList<>();
        synchronized (this) {
            tickets.forEach((ticket, asked) -> {
                if (now - deadline(asked) >= 0) {
                    expired.add(ticket);
                }
            });
            for (Long ticket : expired) {
                Ticket asked = tickets.get(ticket);
                forget(ticket, asked);
                health.failed(TierMiss.TIMED_OUT, "no answer within " + timeoutNanos / 1_000_000 + " ms", now);
                miss(asked, TierMiss.TIMED_OUT, null);
            }
        }
        expired.forEach(store::cancel);
        if (!expired.isEmpty()) {
            ask();
        }
    }

    /** When {@link #expire} will next have something to give up; Long.MAX_VALUE for never. */
    synchronized long nextDeadline() {
        long earliest = Long.MAX_VALUE;
        for (Ticket asked : tickets.values()) {
            earliest = Math.min(earliest, deadline(asked));
        }
        return earliest;
    }

    /** What loads take from now on. */
    synchronized LoadRate.Forecast forecast(long now) {
        return health.mayAsk(now) ? rate.forecast(numInFlight, now - readingSince, now) : LoadRate.Forecast.NEVER;
    }

    /** Since when the first load in flight is being read; now if there is none. */
    synchronized long headSince(long now) {
        return numInFlight == 0 ? now : readingSince;
    }

    /** Whether the rate was never seen, or so long ago that a load should be tried whatever it says. */
    synchronized boolean isRateUncertain(long now) {
        return !rate.isKnown() || rate.isStale(now);
    }

    /** A chunk's load by experience; 0 while unknown. */
    synchronized double chunkNanos(long now) {
        return rate.chunkNanos(now);
    }

    synchronized boolean isPaused(long now) {
        return !health.mayAsk(now);
    }

    synchronized long numBytesRead() {
        return numBytesRead;
    }

    /** Chunks in flight or in memory; for tests. */
    synchronized int numHeld() {
        return numHeld;
    }

    @Override
    public void found(long ticket, int numChunks) {
        synchronized (this) {
            Ticket asked = tickets.get(ticket);
            if (asked == null || asked.chunk() != FIND) {
                return;
            }
            tickets.remove(ticket);
            PrefixLoad load = asked.load();
            news.add(new News(load, FIND, numChunks, null, null, null));
            // The disk need not wait for the end of a step; until then nobody knows whether there are blocks.
            for (int chunk = Math.min(numChunks, load.keys().size()) - 1; chunk >= load.numCached(); chunk--) {
                wanted.add(new Wanted(load, chunk, true));
            }
        }
        ask();
        signal.run();
    }

    @Override
    public void loaded(long ticket, byte[][] pieces) {
        Ticket asked;
        synchronized (this) {
            asked = tickets.get(ticket);
        }
        if (asked == null || asked.chunk() == FIND) {
            return;
        }
        PrefixLoad load = asked.load();
        int chunk = asked.chunk();
        ChunkCodec.Refusal refusal =
                codec.check(load.keys().get(chunk), load.tokenIds(), chunk * load.chunkTokens(), pieces);
        synchronized (this) {
            if (tickets.get(ticket) != asked) {
                return; // given up, or answered twice at once
            }
            long now = clock.getAsLong();
            tickets.remove(ticket);
            rate.observe(now - Math.max(readingSince, asked.askedNanos()), now);
            numInFlight--;
            readingSince = now;
            numBytesRead += codec.chunkBytes();
            if (refusal == null) {
                health.succeeded();
                news.add(new News(load, chunk, 0, pieces, null, null));
            } else {
                numHeld--;
                health.failed(TierMiss.REFUSED, refusal.doubt().label() + ": " + refusal.text(), now);
                miss(asked, TierMiss.REFUSED, refusal.doubt());
            }
        }
        ask();
        signal.run();
    }

    @Override
    public void missed(long ticket, TierMiss reason, String text) {
        synchronized (this) {
            Ticket asked = tickets.get(ticket);
            if (asked == null) {
                return;
            }
            long now = clock.getAsLong();
            forget(ticket, asked);
            if (reason.isFailure()) {
                health.failed(reason, text, now);
            }
            miss(asked, reason, null);
        }
        ask();
        signal.run();
    }

    private long deadline(Ticket asked) {
        long begun = asked.chunk() == FIND ? asked.askedNanos() : Math.max(asked.askedNanos(), readingSince);
        return begun + timeoutNanos;
    }

    private long open(PrefixLoad load, int chunk, long now) {
        long ticket = nextTicket++;
        tickets.put(ticket, new Ticket(load, chunk, now));
        return ticket;
    }

    private void miss(Ticket asked, TierMiss miss, ChunkDoubt doubt) {
        news.add(new News(asked.load(), asked.chunk(), 0, null, miss, doubt));
    }

    /** A head that is given up says at least how long it has been read in vain. */
    private void noteHeadGivenUp(List<Long> cancelled) {
        for (Map.Entry<Long, Ticket> entry : tickets.entrySet()) {
            if (entry.getValue().chunk() != FIND) {
                if (cancelled.contains(entry.getKey())) {
                    long now = clock.getAsLong();
                    rate.observeGivenUp(
                            now - Math.max(readingSince, entry.getValue().askedNanos()), now);
                }
                return;
            }
        }
    }

    /** Takes a ticket back of which nothing will be kept. */
    private void forget(long ticket, Ticket asked) {
        tickets.remove(ticket);
        if (asked.chunk() != FIND) {
            numHeld--;
            numInFlight--; // the store may be reading it nevertheless, so the next one is not taken to begin now
        }
    }

    /** Asks for what is wanted, as far as the store has room. */
    private void ask() {
        while (true) {
            long ticket;
            Wanted next;
            synchronized (this) {
                next = takeNextWanted();
                if (next == null) {
                    return;
                }
                long now = clock.getAsLong();
                ticket = open(next.load(), next.chunk(), now);
                next.load().unanswered.set(next.chunk());
                if (numInFlight++ == 0) {
                    readingSince = now;
                }
                numHeld++;
            }
            store.load(ticket, next.load().affinityKey(), next.load().keys().get(next.chunk()));
        }
    }

    private Wanted takeNextWanted() {
        if (wanted.isEmpty()
                || numInFlight >= Math.max(1, store.maxLoadsInFlight())
                || !health.mayAsk(clock.getAsLong())) {
            return null;
        }
        for (int i = 0; i < wanted.size(); i++) {
            if (numHeld < (wanted.get(i).prefetch() ? maxPrefetchedChunks : maxChunks)) {
                return wanted.remove(i);
            }
        }
        return null;
    }
}
