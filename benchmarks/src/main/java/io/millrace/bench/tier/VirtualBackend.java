package io.millrace.bench.tier;

import io.millrace.backend.Backend;
import io.millrace.backend.BatchInput;
import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import io.millrace.backend.KvTransfer;
import io.millrace.backend.StepHandle;
import io.millrace.backend.StepOutput;
import io.millrace.backend.StepTimes;
import io.millrace.sampling.TokenLogprobs;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * A device that computes nothing but takes the time that computing would: what a step's tokens cost at their positions is
 * added to a virtual clock. The KV of a token is a hash of the tokens up to it, so that a step that continues from KV of
 * another prefix, or from none, is found out. It draws the same token always. One thread.
 */
public final class VirtualBackend implements Backend, KvTransfer {
    /** Ids from here on are the measured prompt's; those below belong to the requests that fill the steps. */
    public static final int FIRST_MEASURED_ID = 256;

    private static final int DRAWN_ID = FIRST_MEASURED_ID;

    private final VirtualClock clock;
    private final ComputeCosts costs;
    private final int blockSize;
    private final KvLayout layout;
    private final long[] slotHashes; // [block × blockSize + offset]
    private long measuredHash;
    private long numOtherTokens;

    /**
     * A device.
     *
     * @param costs of a step's tokens
     * @param numBlocks KV blocks that it holds
     */
    public VirtualBackend(VirtualClock clock, ComputeCosts costs, int numBlocks, int blockSize) {
        this.clock = clock;
        this.costs = costs;
        this.blockSize = blockSize;
        // One layer, one KV head of two 2-byte numbers: keys and values of a token are the 8 bytes of its hash.
        layout = new KvLayout(1, 1, 2, blockSize, Short.BYTES);
        slotHashes = new long[numBlocks * blockSize];
    }

    @Override
    public StepHandle submit(BatchInput input) {
        copy(input);
        double seconds = 0;
        for (int s = 0; s < input.numSequences(); s++) {
            seconds += write(input, s);
        }
        long nanos = Math.round(seconds * 1e9);
        return () -> {
            clock.advance(nanos);
            int[] ids = new int[input.logitsRows().size()];
            Arrays.fill(ids, DRAWN_ID);
            return new StepOutput(ids, new TokenLogprobs[ids.length], new StepTimes(nanos, nanos, 0, 0));
        };
    }

    private void copy(BatchInput input) {
        for (int i = 0; i < input.numCopies(); i++) {
            System.arraycopy(
                    slotHashes,
                    input.copySources()[i] * blockSize,
                    slotHashes,
                    input.copyDestinations()[i] * blockSize,
                    blockSize);
        }
    }

    /** Writes the KV of a sequence's tokens; returns what they cost. */
    private double write(BatchInput input, int s) {
        int from = input.queryStarts()[s];
        int end = input.queryStarts()[s + 1];
        int position = input.positions()[from];
        long hash = 0;
        if (position > 0) {
            int[] table = input.blockTables()[s];
            hash = slotHashes[table[(position - 1) / blockSize] * blockSize + (position - 1) % blockSize];
        }
        double seconds = 0;
        for (int t = from; t < end; t++) {
            int id = input.tokenIds()[t];
            hash = mix(hash, id);
            slotHashes[input.slotMapping()[t]] = hash;
            boolean isMeasured = id >= FIRST_MEASURED_ID;
            seconds += isMeasured
                    ? costs.tokenSeconds() + input.positions()[t] * costs.positionSeconds()
                    : costs.otherTokenSeconds();
        }
        if (input.tokenIds()[end - 1] >= FIRST_MEASURED_ID) {
            measuredHash = hash;
        } else {
            numOtherTokens += end - from;
        }
        return seconds;
    }

    /** Tokens computed of the requests that fill the steps. */
    public long numOtherTokens() {
        return numOtherTokens;
    }

    /** KV of the last token computed of a measured prompt. */
    public long measuredHash() {
        return measuredHash;
    }

    /** The KV that a prompt's last token has if all before it is right. */
    public static long hashOf(int[] tokenIds) {
        long hash = 0;
        for (int id : tokenIds) {
            hash = mix(hash, id);
        }
        return hash;
    }

    private static long mix(long hash, int id) {
        long x = (hash ^ id) * 0xD6E8FEB86659FD93L + 0x632BE59BD9B4E019L;
        return x ^ (x >>> 29);
    }

    @Override
    public KvTransfer kvTransfer() {
        return this;
    }

    @Override
    public KvLayout layout() {
        return layout;
    }

    @Override
    public void exportKv(
            int[] blocks, int numBlocks, KvFormat format, int firstUnit, int numUnits, byte[] destination, int offset) {
        requireLossless(format);
        ByteBuffer buffer = ByteBuffer.wrap(destination, offset, numUnits * layout.unitBytes(format));
        for (int unit = firstUnit; unit < firstUnit + numUnits; unit++) {
            for (int i = 0; i < blockSize; i++) {
                buffer.putLong(slotHashes[blocks[unit] * blockSize + i]);
            }
        }
    }

    @Override
    public void importKv(
            int[] blocks, int numBlocks, KvFormat format, int firstUnit, int numUnits, byte[] source, int offset) {
        requireLossless(format);
        ByteBuffer buffer = ByteBuffer.wrap(source, offset, numUnits * layout.unitBytes(format));
        for (int unit = firstUnit; unit < firstUnit + numUnits; unit++) {
            for (int i = 0; i < blockSize; i++) {
                slotHashes[blocks[unit] * blockSize + i] = buffer.getLong();
            }
        }
    }

    @Override
    public void requantize(int[] blocks, int numBlocks, KvFormat format) {
        requireLossless(format);
    }

    private static void requireLossless(KvFormat format) {
        if (format.isLossy()) {
            throw new IllegalArgumentException("KV as " + format.optionName()
                    + ": on virtual time fewer bits are a lighter load, the format stays as computed");
        }
    }

    @Override
    public int numBlocks() {
        return slotHashes.length / blockSize;
    }

    @Override
    public long bytesPerBlock() {
        return (long) blockSize * Long.BYTES;
    }

    @Override
    public String numericFingerprint() {
        return "virtual";
    }

    @Override
    public void close() {}
}
