package io.millrace.prefix;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.LongSupplier;

/**
 * A prefix store in memory on a clock of the test's: loads are read one after another, each takes its time, and answers are
 * given when {@link #deliver} is called and they are due. Told to, it loses, corrupts, truncates, forgets, hangs, and answers
 * late or twice. One thread.
 */
public final class InMemoryPrefixStore implements PrefixStore {
    /** What may go wrong with a load. */
    public enum Fault {
        NONE,
        /** Says that the chunk is not there. */
        MISS,
        /** Says that it was evicted while it was read. */
        EVICTED,
        /** Says that reading it failed. */
        READ_FAILED,
        /** Flips a bit. */
        CORRUPT,
        /** Cuts a piece short. */
        TRUNCATE,
        /** Leaves the last piece out. */
        DROP_PIECE,
        /** Answers with another chunk. */
        SWAP,
        /** Never answers. */
        HANG,
        /** Answers after ten seconds, and whether or not it was cancelled. */
        LATE,
        /** Answers twice. */
        TWICE
    }

    private record Job(long ticket, ChunkKey key, List<ChunkKey> chain, Fault fault) {}

    private record Late(long dueNanos, Runnable answer) {}

    private final LongSupplier clock;
    private final Random random;
    private final Map<ChunkKey, byte[][]> chunks = new HashMap<>();
    private final Deque<Job> jobs = new ArrayDeque<>();
    private final List<Late> lateAnswers = new ArrayList<>();
    private Answers answers;
    private long headDueNanos = Long.MAX_VALUE;
    private long findNanos;
    private long loadNanos;
    private double faultShare;
    private int maxLoadsInFlight = 2;
    private int numLoadsInFlight;
    private long numLoads;
    private long numFinds;
    private boolean refusing;
    private boolean closed;

    public InMemoryPrefixStore(LongSupplier clock, long seed) {
        this.clock = clock;
        random = new Random(seed);
    }

    /** What a find and a load take from now on. */
    public InMemoryPrefixStore withTimes(long newFindNanos, long newLoadNanos) {
        findNanos = newFindNanos;
        loadNanos = newLoadNanos;
        return this;
    }

    /** Which share of loads goes wrong in one of the ways. */
    public InMemoryPrefixStore withFaults(double share) {
        faultShare = share;
        return this;
    }

    public InMemoryPrefixStore withMaxLoadsInFlight(int loads) {
        maxLoadsInFlight = loads;
        return this;
    }

    /** Whether to drop all that is to be stored. */
    public void setRefusing(boolean refuses) {
        refusing = refuses;
    }

    /** Forgets everything. */
    public void forgetAll() {
        chunks.clear();
    }

    /** Forgets about that share of the chunks. */
    public void forget(double share) {
        chunks.keySet().removeIf(key -> random.nextDouble() < share);
    }

    public int numChunks() {
        return chunks.size();
    }

    public boolean contains(ChunkKey key) {
        return chunks.containsKey(key);
    }

    public long numLoads() {
        return numLoads;
    }

    public long numFinds() {
        return numFinds;
    }

    public boolean isClosed() {
        return closed;
    }

    /** When the next answer is due; Long.MAX_VALUE if none is. */
    public long nextAnswerNanos() {
        long next = headDueNanos;
        for (Late late : lateAnswers) {
            next = Math.min(next, late.dueNanos());
        }
        return next;
    }

    /** Gives one answer that is due; returns whether there was one. */
    public boolean deliver() {
        long now = clock.getAsLong();
        for (int i = 0; i < lateAnswers.size(); i++) {
            if (lateAnswers.get(i).dueNanos() <= now) {
                lateAnswers.remove(i).answer().run();
                return true;
            }
        }
        if (jobs.isEmpty() || headDueNanos > now) {
            return false;
        }
        Job job = jobs.remove();
        schedule();
        if (job.chain() != null) {
            if (job.fault() != Fault.HANG) {
                int numFound = 0;
                while (numFound < job.chain().size()
                        && chunks.containsKey(job.chain().get(numFound))) {
                    numFound++;
                }
                answers.found(job.ticket(), numFound);
            }
        } else {
            numLoadsInFlight--;
            answer(job);
        }
        return true;
    }

    private void answer(Job job) {
        byte[][] stored = chunks.get(job.key());
        if (stored == null || job.fault() == Fault.MISS) {
            answers.missed(job.ticket(), TierMiss.NOT_STORED, "it is not stored");
            return;
        }
        switch (job.fault()) {
            case CORRUPT -> {
                byte[][] pieces = copy(stored);
                byte[] piece = pieces[random.nextInt(pieces.length)];
                piece[random.nextInt(piece.length)] ^= (byte) (1 << random.nextInt(8));
                answers.loaded(job.ticket(), pieces);
            }
            case TRUNCATE -> {
                byte[][] pieces = copy(stored);
                int i = random.nextInt(pieces.length);
                pieces[i] = Arrays.copyOf(pieces[i], random.nextInt(pieces[i].length));
                answers.loaded(job.ticket(), pieces);
            }
            case DROP_PIECE -> answers.loaded(job.ticket(), Arrays.copyOf(copy(stored), stored.length - 1));
            case SWAP -> answers.loaded(job.ticket(), copy(anyChunk()));
            case READ_FAILED -> answers.missed(job.ticket(), TierMiss.READ_FAILED, "it cannot be read");
            case EVICTED -> answers.missed(job.ticket(), TierMiss.EVICTED, "it was evicted while it was read");
            case HANG -> {}
            case LATE -> {
                byte[][] pieces = copy(stored);
                lateAnswers.add(
                        new Late(clock.getAsLong() + 10_000_000_000L, () -> answers.loaded(job.ticket(), pieces)));
            }
            case TWICE -> {
                answers.loaded(job.ticket(), copy(stored));
                answers.loaded(job.ticket(), copy(stored));
            }
            default -> answers.loaded(job.ticket(), copy(stored));
        }
    }

    private byte[][] anyChunk() {
        List<byte[][]> all = new ArrayList<>(chunks.values());
        return all.get(random.nextInt(all.size()));
    }

    /** Into arrays of the receiver's, so that one that is used again too early is found out. */
    private byte[][] copy(byte[][] pieces) {
        byte[][] copy = answers.arraysFor(
                Arrays.stream(pieces).mapToInt(piece -> piece.length).toArray());
        for (int i = 0; i < pieces.length; i++) {
            System.arraycopy(pieces[i], 0, copy[i], 0, pieces[i].length);
        }
        return copy;
    }

    private void schedule() {
        Job head = jobs.peek();
        headDueNanos =
                head == null ? Long.MAX_VALUE : clock.getAsLong() + (head.chain() != null ? findNanos : loadNanos);
    }

    private void enqueue(Job job) {
        jobs.add(job);
        if (jobs.size() == 1) {
            schedule();
        }
    }

    private Fault fault() {
        return random.nextDouble() < faultShare
                ? Fault.values()[1 + random.nextInt(Fault.values().length - 1)]
                : Fault.NONE;
    }

    @Override
    public void open(Answers receiver) {
        answers = receiver;
    }

    @Override
    public void find(long ticket, long affinityKey, List<ChunkKey> chain) {
        numFinds++;
        enqueue(new Job(ticket, null, List.copyOf(chain), fault()));
    }

    @Override
    public void load(long ticket, long affinityKey, ChunkKey key) {
        numLoads++;
        if (++numLoadsInFlight > maxLoadsInFlight) {
            throw new AssertionError(
                    numLoadsInFlight + " loads are asked for at a time, the most is " + maxLoadsInFlight);
        }
        enqueue(new Job(ticket, key, null, fault()));
    }

    @Override
    public void cancel(long ticket) {
        boolean wasHead = !jobs.isEmpty() && jobs.peek().ticket() == ticket;
        boolean wasLoad = jobs.stream().anyMatch(job -> job.ticket() == ticket && job.chain() == null);
        if (jobs.removeIf(job -> job.ticket() == ticket)) {
            numLoadsInFlight -= wasLoad ? 1 : 0;
            if (wasHead) {
                schedule();
            }
        }
    }

    @Override
    public boolean store(long affinityKey, List<ChunkKey> chain, byte[][] pieces) {
        if (refusing) {
            return false;
        }
        byte[][] kept = new byte[pieces.length][];
        for (int i = 0; i < pieces.length; i++) {
            ChunkCodec.seal(pieces[i]);
            kept[i] = pieces[i].clone();
        }
        chunks.put(chain.get(chain.size() - 1), kept);
        answers.gaveBack(pieces);
        return true;
    }

    @Override
    public int maxLoadsInFlight() {
        return maxLoadsInFlight;
    }

    @Override
    public StoreStats stats() {
        return new StoreStats(chunks.size(), 0, 0, 0, 0, 0, 0, 0, 0);
    }

    @Override
    public void close() {
        closed = true;
    }
}
