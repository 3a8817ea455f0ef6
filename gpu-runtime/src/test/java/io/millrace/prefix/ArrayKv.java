package io.millrace.prefix;

import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import io.millrace.backend.KvTransfer;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;

/** KV memory that is a map from (block, layer, head) to a unit's bytes; lossy formats are merely of other sizes. */
final class ArrayKv implements KvTransfer {
    private final KvLayout layout;
    private final Map<Integer, byte[]> units = new HashMap<>();

    ArrayKv(KvLayout layout) {
        this.layout = layout;
    }

    private int index(int[] blocks, int numBlocks, int unit) {
        int head = unit % layout.numKvHeads();
        int rest = unit / layout.numKvHeads();
        return (blocks[rest % numBlocks] * layout.numLayers() + rest / numBlocks) * layout.numKvHeads() + head;
    }

    void fill(int[] blocks, KvFormat format, SplittableRandom random) {
        for (int unit = 0; unit < layout.numUnits(blocks.length); unit++) {
            byte[] bytes = new byte[layout.unitBytes(format)];
            random.nextBytes(bytes);
            units.put(index(blocks, blocks.length, unit), bytes);
        }
    }

    byte[] unit(int[] blocks, int unit) {
        return units.get(index(blocks, blocks.length, unit));
    }

    @Override
    public KvLayout layout() {
        return layout;
    }

    @Override
    public void exportKv(int[] blocks, int numBlocks, KvFormat format, int first, int count, byte[] out, int offset) {
        for (int i = 0; i < count; i++) {
            byte[] unit = units.get(index(blocks, numBlocks, first + i));
            System.arraycopy(unit, 0, out, offset + i * layout.unitBytes(format), layout.unitBytes(format));
        }
    }

    @Override
    public void importKv(int[] blocks, int numBlocks, KvFormat format, int first, int count, byte[] in, int offset) {
        for (int i = 0; i < count; i++) {
            byte[] unit = new byte[layout.unitBytes(format)];
            System.arraycopy(in, offset + i * unit.length, unit, 0, unit.length);
            units.put(index(blocks, numBlocks, first + i), unit);
        }
    }

    @Override
    public void requantize(int[] blocks, int numBlocks, KvFormat format) {
        throw new UnsupportedOperationException("not needed to test pieces");
    }
}
