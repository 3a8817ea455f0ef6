package io.millrace.backend.fake;

import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import io.millrace.backend.KvTransfer;
import java.nio.ByteBuffer;
import java.util.BitSet;

/**
 * Moves a {@link FakeBackend}'s KV. A unit holds each of its tokens' id, position and hash, the rest is a pattern of the unit's
 * layer, head and hash: units that come back to another place, and blocks of which only some units come back, are errors.
 */
final class FakeKvTransfer implements KvTransfer {
    private static final int NUM_LAYERS = 4;
    private static final int NUM_KV_HEADS = 2;
    private static final int HEAD_DIM = 16;
    private static final int NUM_UNITS = NUM_LAYERS * NUM_KV_HEADS;
    private static final int TOKEN_BYTES = 2 * Integer.BYTES + Long.BYTES;

    private final KvLayout layout;
    private final int blockSize;
    private final int[] slotTokens;
    private final int[] slotPositions;
    private final long[] slotHashes;
    private final KvFormat[] slotFormats;
    private final BitSet[] missingUnits; // by block; null where whole

    FakeKvTransfer(int blockSize, int[] tokens, int[] positions, long[] hashes, KvFormat[] formats) {
        this.layout = new KvLayout(NUM_LAYERS, NUM_KV_HEADS, HEAD_DIM, blockSize, Float.BYTES);
        this.blockSize = blockSize;
        this.slotTokens = tokens;
        this.slotPositions = positions;
        this.slotHashes = hashes;
        this.slotFormats = formats;
        this.missingUnits = new BitSet[tokens.length / blockSize];
    }

    @Override
    public KvLayout layout() {
        return layout;
    }

    boolean isWhole(int block) {
        return missingUnits[block] == null;
    }

    /** A block that is used anew is written from its first slot on. */
    void written(int slot) {
        if (slot % blockSize == 0) {
            missingUnits[slot / blockSize] = null;
        }
    }

    void copied(int source, int destination) {
        missingUnits[destination] = missingUnits[source] == null ? null : (BitSet) missingUnits[source].clone();
    }

    @Override
    public void exportKv(
            int[] blocks, int numBlocks, KvFormat format, int firstUnit, int numUnits, byte[] destination, int offset) {
        ByteBuffer out = ByteBuffer.wrap(destination);
        for (int unit = firstUnit; unit < firstUnit + numUnits; unit++) {
            int block = block(blocks, numBlocks, unit);
            if (!isWhole(block)) {
                throw new AssertionError("block " + block + " is exported and was imported in part");
            }
            out.position(offset + (unit - firstUnit) * layout.unitBytes(format));
            for (int slot = block * blockSize; slot < (block + 1) * blockSize; slot++) {
                int start = out.position();
                out.putInt(slotTokens[slot]).putInt(slotPositions[slot]).putLong(slotHashes[slot]);
                while (out.position() < start + layout.unitBytes(format) / blockSize) {
                    out.put(pattern(unit(unit, numBlocks), slotHashes[slot], out.position() - start));
                }
            }
        }
    }

    @Override
    public void importKv(
            int[] blocks, int numBlocks, KvFormat format, int firstUnit, int numUnits, byte[] source, int offset) {
        ByteBuffer in = ByteBuffer.wrap(source);
        for (int unit = firstUnit; unit < firstUnit + numUnits; unit++) {
            int block = block(blocks, numBlocks, unit);
            BitSet missing = missingUnits[block];
            boolean isFirst = missing == null || !missing.get(unit(unit, numBlocks));
            if (isFirst) {
                missing = new BitSet();
                missing.set(0, NUM_UNITS);
                missingUnits[block] = missing;
            }
            in.position(offset + (unit - firstUnit) * layout.unitBytes(format));
            for (int slot = block * blockSize; slot < (block + 1) * blockSize; slot++) {
                readToken(in, slot, unit(unit, numBlocks), layout.unitBytes(format) / blockSize, isFirst);
                slotFormats[slot] = format.isLossy() ? format : slotFormats[slot];
            }
            missing.clear(unit(unit, numBlocks));
            if (missing.isEmpty()) {
                missingUnits[block] = null;
            }
        }
    }

    private void readToken(ByteBuffer in, int slot, int unit, int numBytes, boolean isFirst) {
        int start = in.position();
        int token = in.getInt();
        int position = in.getInt();
        long hash = in.getLong();
        if (isFirst) {
            slotTokens[slot] = token;
            slotPositions[slot] = position;
            slotHashes[slot] = hash;
            slotFormats[slot] = KvFormat.AS_COMPUTED;
        } else if (slotTokens[slot] != token || slotPositions[slot] != position || slotHashes[slot] != hash) {
            throw new AssertionError("units of several tokens are imported to slot " + slot);
        }
        for (int at = TOKEN_BYTES; at < numBytes; at++) {
            if (in.get() != pattern(unit, hash, at)) {
                throw new AssertionError("byte " + (start + at) + " is not of unit " + unit + " of slot " + slot);
            }
        }
    }

    @Override
    public void requantize(int[] blocks, int numBlocks, KvFormat format) {
        for (int i = 0; format.isLossy() && i < numBlocks; i++) {
            for (int slot = blocks[i] * blockSize; slot < (blocks[i] + 1) * blockSize; slot++) {
                slotFormats[slot] = format;
            }
        }
    }

    private static int block(int[] blocks, int numBlocks, int unit) {
        return blocks[unit / NUM_KV_HEADS % numBlocks];
    }

    /** Number of a unit among those of its block. */
    private static int unit(int unit, int numBlocks) {
        return unit / NUM_KV_HEADS / numBlocks * NUM_KV_HEADS + unit % NUM_KV_HEADS;
    }

    private static byte pattern(int unit, long hash, int at) {
        return (byte) FakeBackend.mix(hash, unit * 4096 + at);
    }
}
