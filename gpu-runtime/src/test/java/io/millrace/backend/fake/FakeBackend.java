package io.millrace.backend.fake;

import io.millrace.backend.Backend;
import io.millrace.backend.BatchInput;
import io.millrace.backend.KvFormat;
import io.millrace.backend.KvTransfer;
import io.millrace.backend.LogitsRow;
import io.millrace.backend.SequenceFaultException;
import io.millrace.backend.StepHandle;
import io.millrace.backend.StepOutput;
import io.millrace.backend.StepTimes;
import io.millrace.sampling.RowSampling;
import io.millrace.sampling.TokenLogprobs;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A backend without a model. Its "KV" of a token is the token's id, its position and a hash of all tokens up to it, computed
 * from what the block table shows of the token before: a wrong block table, a missing copy or a block written by two gives
 * other tokens, and mostly an error at once, since every step verifies the whole context of every sequence.
 *
 * <p>Rounding a token's KV to a lossy format changes what later tokens' hashes are made of, so whoever rounds too late, or
 * not at all, draws other tokens.
 *
 * <p>The token drawn is a pure function of the sequence's tokens, the seed and the sample index; about one in 64 is an EOS
 * id. Test hooks: computing token id {@value #FAULT_TOKEN_ID} throws a {@link SequenceFaultException}, {@value
 * #CRASH_TOKEN_ID} an exception that cannot be traced to a sequence, {@value #HALT_TOKEN_ID} halts the JVM with status 137.
 * None of the three is ever drawn; an inaccurate one, made to stand in for a draft model, errs in a fixed share of its draws and
 * may then say {@value #FAULT_TOKEN_ID}. The system properties {@value #STEP_MILLIS} and {@value #TOKEN_MICROS} make every
 * step take that long, and that long more for each of its tokens.
 */
public final class FakeBackend implements Backend {
    public static final int FAULT_TOKEN_ID = 666;
    public static final int CRASH_TOKEN_ID = 667;
    public static final int HALT_TOKEN_ID = 668;
    public static final String STEP_MILLIS = "millrace.fake.stepMillis";
    public static final String TOKEN_MICROS = "millrace.fake.tokenMicros";
    public static final long BYTES_PER_TOKEN = 1024;

    private static final int EOS_PERIOD = 64;
    private static final int EMPTY = -1;

    private final int numBlocks;
    private final int blockSize;
    private final int vocabSize;
    private final int[] eosTokenIds;
    private final double accuracy;
    private final int[] slotTokens; // EMPTY where nothing was written yet
    private final int[] slotPositions;
    private final long[] slotHashes;
    private final KvFormat[] slotFormats; // which format the slot's KV was rounded to
    private final FakeKvTransfer kvTransfer;
    private final int[] writers; // which sequence wrote the block in this step; EMPTY
    private boolean closed;

    public FakeBackend(int numBlocks, int blockSize, int vocabSize, List<Integer> eosTokenIds) {
        this(numBlocks, blockSize, vocabSize, eosTokenIds, 1);
    }

    /** @param accuracy share of draws that are what an accurate backend draws */
    public FakeBackend(int numBlocks, int blockSize, int vocabSize, List<Integer> eosTokenIds, double accuracy) {
        this.accuracy = accuracy;
        this.numBlocks = numBlocks;
        this.blockSize = blockSize;
        this.vocabSize = vocabSize;
        this.eosTokenIds = eosTokenIds.stream().mapToInt(Integer::intValue).toArray();
        int numSlots = Math.multiplyExact(numBlocks, blockSize);
        slotTokens = new int[numSlots];
        Arrays.fill(slotTokens, EMPTY);
        slotPositions = new int[numSlots];
        slotHashes = new long[numSlots];
        slotFormats = new KvFormat[numSlots];
        Arrays.fill(slotFormats, KvFormat.AS_COMPUTED);
        kvTransfer = new FakeKvTransfer(blockSize, slotTokens, slotPositions, slotHashes, slotFormats);
        writers = new int[numBlocks];
    }

    static int numBlocks(long kvCacheMemoryBytes, int blockSize) {
        return Math.toIntExact(kvCacheMemoryBytes / (blockSize * BYTES_PER_TOKEN));
    }

    @Override
    public int numBlocks() {
        return numBlocks;
    }

    @Override
    public long bytesPerBlock() {
        return blockSize * BYTES_PER_TOKEN;
    }

    @Override
    public KvTransfer kvTransfer() {
        return kvTransfer;
    }

    @Override
    public String numericFingerprint() {
        return "fake 1";
    }

    @Override
    public void close() {
        closed = true;
    }

    @Override
    public StepHandle submit(BatchInput input) {
        if (closed) {
            throw new IllegalStateException("the backend is closed");
        }
        return () -> run(input);
    }

    private StepOutput run(BatchInput input) {
        long start = System.nanoTime();
        pause(input.numTokens());
        verifyLayout(input);
        springTraps(input); // before any effect: a faulty step can be run again
        copy(input);
        verifyWriters(input);
        for (int s = 0; s < input.numSequences(); s++) {
            verifyContext(input, s);
            write(input, s);
        }
        StepOutput output = draw(input);
        return new StepOutput(output.tokenIds(), output.logprobs(), new StepTimes(System.nanoTime() - start, 0, 0, 0));
    }

    private static void pause(int numTokens) {
        long micros = 1_000 * Long.getLong(STEP_MILLIS, 0) + numTokens * Long.getLong(TOKEN_MICROS, 0);
        if (micros > 0) {
            try {
                TimeUnit.MICROSECONDS.sleep(micros);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void verifyLayout(BatchInput input) {
        if (!(input.numSequences() > 0 && input.queryStarts()[0] == 0)) {
            throw wrong("a step without sequences or a first start not 0");
        }
        if (!(input.queryStarts()[input.numSequences()] == input.numTokens())) {
            throw wrong("query starts do not end at numTokens");
        }
        for (int s = 0; s < input.numSequences(); s++) {
            int from = input.queryStarts()[s];
            int to = input.queryStarts()[s + 1];
            if (!(from < to)) {
                throw wrong("sequence " + s + " has no tokens");
            }
            if (!(input.positions()[to - 1] + 1 == input.contextLengths()[s])) {
                throw wrong("sequence " + s + " ends at another position than its context");
            }
            for (int t = from; t < to; t++) {
                int position = input.positions()[t];
                if (!(t == from || position == input.positions()[t - 1] + 1)) {
                    throw wrong("positions of sequence " + s + " jump");
                }
                if (!(position >= 0)) {
                    throw wrong("a negative position");
                }
                if (!(input.slotMapping()[t] == slot(input, s, position))) {
                    throw wrong("token " + t + " is written to slot " + input.slotMapping()[t] + ", its table says "
                            + slot(input, s, position));
                }
                int id = input.tokenIds()[t];
                if (!(id >= 0 && id < vocabSize)) {
                    throw wrong("token id " + id + " outside of the vocabulary");
                }
            }
        }
    }

    private void springTraps(BatchInput input) {
        for (int s = 0; s < input.numSequences(); s++) {
            for (int t = input.queryStarts()[s]; t < input.queryStarts()[s + 1]; t++) {
                switch (input.tokenIds()[t]) {
                    case FAULT_TOKEN_ID ->
                        throw new SequenceFaultException(s, "token " + FAULT_TOKEN_ID + " cannot be computed", null);
                    case CRASH_TOKEN_ID -> throw new IllegalStateException("a step with token " + CRASH_TOKEN_ID);
                    case HALT_TOKEN_ID -> Runtime.getRuntime().halt(137);
                    default -> {}
                }
            }
        }
    }

    private void copy(BatchInput input) {
        for (int i = 0; i < input.numCopies(); i++) {
            int source = input.copySources()[i] * blockSize;
            int destination = input.copyDestinations()[i] * blockSize;
            if (!(source != destination)) {
                throw wrong("block " + input.copySources()[i] + " is copied to itself");
            }
            if (!(slotTokens[source] != EMPTY)) {
                throw wrong("block " + input.copySources()[i] + " is copied but was never written");
            }
            System.arraycopy(slotTokens, source, slotTokens, destination, blockSize);
            System.arraycopy(slotPositions, source, slotPositions, destination, blockSize);
            System.arraycopy(slotHashes, source, slotHashes, destination, blockSize);
            System.arraycopy(slotFormats, source, slotFormats, destination, blockSize);
            kvTransfer.copied(input.copySources()[i], input.copyDestinations()[i]);
        }
    }

    /** No block is written by two sequences, and none that another sequence reads. */
    private void verifyWriters(BatchInput input) {
        Arrays.fill(writers, EMPTY);
        for (int s = 0; s < input.numSequences(); s++) {
            for (int t = input.queryStarts()[s]; t < input.queryStarts()[s + 1]; t++) {
                int block = input.slotMapping()[t] / blockSize;
                if (!(writers[block] == EMPTY || writers[block] == s)) {
                    throw wrong("block " + block + " is written by sequences " + writers[block] + " and " + s);
                }
                writers[block] = s;
            }
        }
        for (int s = 0; s < input.numSequences(); s++) {
            for (int i = 0; i * blockSize < input.contextLengths()[s]; i++) {
                int block = input.blockTables()[s][i];
                if (!(writers[block] == EMPTY || writers[block] == s)) {
                    throw wrong("block " + block + " is read by sequence " + s + " and written by " + writers[block]);
                }
            }
        }
    }

    private void verifyContext(BatchInput input, int s) {
        int first = input.positions()[input.queryStarts()[s]];
        for (int position = 0; position < first; position++) {
            int slot = slot(input, s, position);
            if (!(slotTokens[slot] != EMPTY && slotPositions[slot] == position)) {
                throw wrong("position " + position + " of sequence " + s + " is in slot " + slot
                        + ", which holds position " + slotPositions[slot]);
            }
            if (!(kvTransfer.isWhole(slot / blockSize))) {
                throw wrong("block " + slot / blockSize + " of sequence " + s + " is read and was imported in part");
            }
            int previous = position == 0 ? EMPTY : slot(input, s, position - 1);
            if (!(slotHashes[slot] == mix(unrounded(previous), slotTokens[slot])
                    || slotHashes[slot] == mix(visible(previous), slotTokens[slot]))) {
                throw wrong("slot " + slot + " holds KV of another prefix than sequence " + s + " shows");
            }
        }
    }

    private long unrounded(int slot) {
        return slot == EMPTY ? 0 : slotHashes[slot];
    }

    /** What later tokens see of a slot: another hash once it was rounded. */
    private long visible(int slot) {
        return slot == EMPTY || slotFormats[slot] == KvFormat.AS_COMPUTED
                ? unrounded(slot)
                : mix(slotHashes[slot], slotFormats[slot].ordinal());
    }

    private void write(BatchInput input, int s) {
        int first = input.positions()[input.queryStarts()[s]];
        long hash = visible(first == 0 ? EMPTY : slot(input, s, first - 1));
        for (int t = input.queryStarts()[s]; t < input.queryStarts()[s + 1]; t++) {
            int slot = input.slotMapping()[t];
            hash = mix(hash, input.tokenIds()[t]);
            slotTokens[slot] = input.tokenIds()[t];
            slotPositions[slot] = input.positions()[t];
            slotHashes[slot] = hash;
            slotFormats[slot] = KvFormat.AS_COMPUTED;
            kvTransfer.written(slot);
        }
    }

    private StepOutput draw(BatchInput input) {
        List<LogitsRow> rows = input.logitsRows();
        int[] ids = new int[rows.size()];
        TokenLogprobs[] logprobs = new TokenLogprobs[rows.size()];
        int s = 0;
        int previousToken = 0;
        for (int r = 0; r < ids.length; r++) {
            LogitsRow row = rows.get(r);
            if (!(row.tokenIndex() >= previousToken && row.tokenIndex() < input.numTokens())) {
                throw wrong("rows are out of order");
            }
            previousToken = row.tokenIndex();
            while (row.tokenIndex() >= input.queryStarts()[s + 1]) {
                s++;
            }
            long hash = slotHashes[input.slotMapping()[row.tokenIndex()]];
            if (row.sampling() == null) {
                ids[r] = row.targetTokenId();
            } else {
                verifySampling(input, s, row);
                ids[r] = drawToken(hash, row.sampling());
                if ((mix(hash, 7) >>> 40) >= accuracy * (1 << 24)) {
                    int wrong = (ids[r] + 1) % vocabSize;
                    ids[r] = wrong == CRASH_TOKEN_ID || wrong == HALT_TOKEN_ID ? FAULT_TOKEN_ID : wrong;
                }
            }
            logprobs[r] = row.numLogprobs() < 0 ? null : logprobs(hash, ids[r], row.numLogprobs());
        }
        return new StepOutput(ids, logprobs, StepTimes.ZERO);
    }

    private void verifySampling(BatchInput input, int s, LogitsRow row) {
        RowSampling sampling = row.sampling();
        int numTokens = input.positions()[row.tokenIndex()] + 1;
        if (!(sampling.numTokens() == numTokens
                && sampling.outputPosition() == numTokens - sampling.numPromptTokens())) {
            throw wrong("a row at position " + (numTokens - 1) + " draws for " + sampling.numTokens()
                    + " tokens, output position " + sampling.outputPosition());
        }
        for (int position = 0; position < numTokens; position++) {
            if (!(slotTokens[slot(input, s, position)] == sampling.tokenIds()[position])) {
                throw wrong("the penalties' token at position " + position + " is not the one in the KV");
            }
        }
    }

    private int drawToken(long prefixHash, RowSampling sampling) {
        long hash = mix(mix(prefixHash, Long.hashCode(sampling.params().seed())), sampling.sampleIndex());
        while (true) {
            hash = mix(hash, 1);
            int value = (int) (hash >>> 33);
            int id = value / EOS_PERIOD % vocabSize;
            if (value % EOS_PERIOD == 0 && eosTokenIds.length > 0) {
                id = eosTokenIds[value / EOS_PERIOD % eosTokenIds.length];
            } else if (contains(eosTokenIds, id)) {
                continue;
            }
            if (id >= FAULT_TOKEN_ID && id <= HALT_TOKEN_ID || contains(sampling.suppressedTokenIds(), id)) {
                continue;
            }
            return id;
        }
    }

    private TokenLogprobs logprobs(long prefixHash, int tokenId, int count) {
        int[] ids = new int[count];
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            ids[i] = (int) Long.remainderUnsigned(mix(prefixHash, i), vocabSize);
            values[i] = -1 - i;
        }
        float own = -(mix(prefixHash, tokenId) >>> 40) / (float) (1 << 20);
        return new TokenLogprobs(tokenId, own, ids, values);
    }

    private int slot(BatchInput input, int s, int position) {
        int[] table = input.blockTables()[s];
        if (!(position / blockSize < table.length)) {
            throw wrong("the table of sequence " + s + " ends before position " + position);
        }
        int block = table[position / blockSize];
        if (!(block >= 0 && block < numBlocks)) {
            throw wrong("block " + block + " of " + numBlocks);
        }
        return block * blockSize + position % blockSize;
    }

    private static boolean contains(int[] ids, int id) {
        for (int candidate : ids) {
            if (candidate == id) {
                return true;
            }
        }
        return false;
    }

    static long mix(long hash, int value) {
        long x = (hash ^ value) * 0xD6E8FEB86659FD93L + 0x632BE59BD9B4E019L;
        x ^= x >>> 32;
        x *= 0xD6E8FEB86659FD93L;
        return x ^ (x >>> 32);
    }

    private static AssertionError wrong(String violation) {
        return new AssertionError("the batch is wrong: " + violation);
    }
}
