package io.millrace.backend.cpu;

import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import io.millrace.backend.KvTransfer;

/** Copies KV out of and into a {@link KvPool}, unit by unit. Engine thread. */
final class CpuKvTransfer implements KvTransfer {
    private final KvPool pool;
    private final KvLayout layout;
    private final Runnable verifyIdle;
    private final KvQuantizer quantizer;
    private final float[] unit;

    /** @param verifyIdle throws while a step is in flight */
    CpuKvTransfer(KvPool pool, Runnable verifyIdle) {
        this.pool = pool;
        this.layout = pool.layout();
        this.verifyIdle = verifyIdle;
        this.quantizer = new KvQuantizer(layout.headDim());
        this.unit = new float[2 * layout.blockSize() * layout.headDim()];
    }

    @Override
    public KvLayout layout() {
        return layout;
    }

    @Override
    public void exportKv(
            int[] blocks, int numBlocks, KvFormat format, int firstUnit, int numUnits, byte[] destination, int offset) {
        verifyIdle.run();
        int bytes = layout.unitBytes(format);
        for (int i = 0; i < numUnits; i++) {
            int head = head(firstUnit + i);
            int block = blocks[blockIndex(firstUnit + i, numBlocks)];
            int layer = layer(firstUnit + i, numBlocks);
            if (format.isLossy()) {
                pool.readUnit(layer, block, head, unit);
                quantizer.write(unit, format, destination, offset + i * bytes);
            } else {
                pool.exportUnit(layer, block, head, destination, offset + i * bytes);
            }
        }
    }

    @Override
    public void importKv(
            int[] blocks, int numBlocks, KvFormat format, int firstUnit, int numUnits, byte[] source, int offset) {
        verifyIdle.run();
        int bytes = layout.unitBytes(format);
        for (int i = 0; i < numUnits; i++) {
            int head = head(firstUnit + i);
            int block = blocks[blockIndex(firstUnit + i, numBlocks)];
            int layer = layer(firstUnit + i, numBlocks);
            if (format.isLossy()) {
                quantizer.read(source, offset + i * bytes, format, unit);
                pool.writeUnit(layer, block, head, unit);
            } else {
                pool.importUnit(layer, block, head, source, offset + i * bytes);
            }
        }
    }

    @Override
    public void requantize(int[] blocks, int numBlocks, KvFormat format) {
        verifyIdle.run();
        if (!format.isLossy()) {
            return;
        }
        for (int i = 0; i < layout.numUnits(numBlocks); i++) {
            int block = blocks[blockIndex(i, numBlocks)];
            pool.readUnit(layer(i, numBlocks), block, head(i), unit);
            quantizer.requantize(unit, format);
            pool.writeUnit(layer(i, numBlocks), block, head(i), unit);
        }
    }

    private int head(int unitIndex) {
        return unitIndex % layout.numKvHeads();
    }

    private int blockIndex(int unitIndex, int numBlocks) {
        return unitIndex / layout.numKvHeads() % numBlocks;
    }

    private int layer(int unitIndex, int numBlocks) {
        return unitIndex / layout.numKvHeads() / numBlocks;
    }
}
