package io.millrace.backend.cpu;

import io.millrace.backend.KvLayout;
import io.millrace.engine.InvalidConfigException;
import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.Kernels;
import io.millrace.model.ModelSpec;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * KV memory of one engine: per layer one array of keys and one of values, in Java's heap (the Vector API of JDK 17 to 25
 * has only arrays in common). Within a block and KV head, keys stand as [head dim][slot] and values as [slot][head dim],
 * so that both of attention's products read whole vectors. Distinct slots may be written by distinct threads.
 */
final class KvPool {
    private static final long MAX_ARRAY_ELEMENTS = Integer.MAX_VALUE - 8;

    private final NumberFormat format;
    private final int numKvHeads;
    private final int headDim;
    private final int numBlocks;
    private final long bytesPerBlock;
    private final short[][] halfKeys;
    private final short[][] halfValues;
    private final float[][] floatKeys;
    private final float[][] floatValues;

    /**
     * Allocates all of it.
     *
     * @throws InvalidConfigException if the memory is below one block or the heap cannot hold it
     */
    KvPool(ModelSpec spec, NumberFormat format, long memoryBytes) {
        this.format = format;
        this.numKvHeads = spec.numKvHeads();
        this.headDim = spec.headDim();
        int blockElements = elementsPerBlock();
        this.bytesPerBlock = 2L * spec.numLayers() * blockElements * format.bytes();
        this.numBlocks = numBlocks(memoryBytes, blockElements);
        checkHeap(memoryBytes);
        int layers = spec.numLayers();
        boolean isHalf = format == NumberFormat.BFLOAT16;
        halfKeys = isHalf ? new short[layers][] : null;
        halfValues = isHalf ? new short[layers][] : null;
        floatKeys = isHalf ? null : new float[layers][];
        floatValues = isHalf ? null : new float[layers][];
        try {
            for (int layer = 0; layer < layers; layer++) {
                if (isHalf) {
                    halfKeys[layer] = new short[numBlocks * blockElements];
                    halfValues[layer] = new short[numBlocks * blockElements];
                } else {
                    floatKeys[layer] = new float[numBlocks * blockElements];
                    floatValues[layer] = new float[numBlocks * blockElements];
                }
            }
        } catch (OutOfMemoryError e) {
            InvalidConfigException refusal = heapTooSmall(memoryBytes);
            refusal.initCause(e);
            throw refusal;
        }
    }

    private int numBlocks(long memoryBytes, int blockElements) {
        long blocks = memoryBytes / bytesPerBlock;
        if (blocks < 1) {
            throw new InvalidConfigException(
                    "--kv-cache-memory-bytes",
                    memoryBytes,
                    "must hold at least one block of " + Kernels.BLOCK_SIZE + " tokens, " + bytesPerBlock + " bytes",
                    "raise it");
        }
        long maxBlocks = MAX_ARRAY_ELEMENTS / blockElements;
        if (blocks > maxBlocks) {
            throw new InvalidConfigException(
                    "--kv-cache-memory-bytes",
                    memoryBytes,
                    "a layer's keys must fit one Java array: at most " + maxBlocks * bytesPerBlock + " bytes",
                    "lower it");
        }
        return (int) blocks;
    }

    private static void checkHeap(long memoryBytes) {
        Runtime runtime = Runtime.getRuntime();
        long free = runtime.maxMemory() - (runtime.totalMemory() - runtime.freeMemory());
        if (memoryBytes > free) {
            // What is in use may be garbage: look again after a collection before refusing.
            System.gc();
            free = runtime.maxMemory() - (runtime.totalMemory() - runtime.freeMemory());
        }
        if (memoryBytes > free) {
            throw heapTooSmall(memoryBytes);
        }
    }

    private static InvalidConfigException heapTooSmall(long memoryBytes) {
        Runtime runtime = Runtime.getRuntime();
        long mebibyte = 1L << 20;
        long used = runtime.totalMemory() - runtime.freeMemory();
        return new InvalidConfigException(
                "--kv-cache-memory-bytes",
                memoryBytes,
                "does not fit the Java heap of at most " + runtime.maxMemory() / mebibyte + " MiB, of which "
                        + used / mebibyte + " MiB are in use",
                "lower it, or start java with a larger -Xmx (at least " + (memoryBytes + used) / mebibyte * 5 / 4
                        + "m)");
    }

    NumberFormat format() {
        return format;
    }

    int numBlocks() {
        return numBlocks;
    }

    /** K and V over all layers. */
    long bytesPerBlock() {
        return bytesPerBlock;
    }

    /** Elements of a block's keys (or values) in one layer, all KV heads. */
    int elementsPerBlock() {
        return numKvHeads * headDim * Kernels.BLOCK_SIZE;
    }

    /** Where a block's keys, and likewise its values, of a KV head begin in a layer's array. */
    int offset(int block, int kvHead) {
        return (block * numKvHeads + kvHead) * headDim * Kernels.BLOCK_SIZE;
    }

    short[] halfKeys(int layer) {
        return halfKeys[layer];
    }

    short[] halfValues(int layer) {
        return halfValues[layer];
    }

    float[] floatKeys(int layer) {
        return floatKeys[layer];
    }

    float[] floatValues(int layer) {
        return floatValues[layer];
    }

    /** Stores one token's key and value of one head. */
    void write(int layer, int slot, int kvHead, float[] source, int keyOffset, int valueOffset) {
        int start = offset(slot / Kernels.BLOCK_SIZE, kvHead);
        int slotInBlock = slot % Kernels.BLOCK_SIZE;
        int key = start + slotInBlock;
        int value = start + slotInBlock * headDim;
        if (format == NumberFormat.BFLOAT16) {
            short[] keys = halfKeys[layer];
            short[] values = halfValues[layer];
            for (int d = 0; d < headDim; d++) {
                keys[key + d * Kernels.BLOCK_SIZE] = Bfloat16.round(source[keyOffset + d]);
                values[value + d] = Bfloat16.round(source[valueOffset + d]);
            }
        } else {
            float[] keys = floatKeys[layer];
            for (int d = 0; d < headDim; d++) {
                keys[key + d * Kernels.BLOCK_SIZE] = source[keyOffset + d];
            }
            System.arraycopy(source, valueOffset, floatValues[layer], value, headDim);
        }
    }

    /** Shape of what leaves the pool. */
    KvLayout layout() {
        int numLayers = format == NumberFormat.BFLOAT16 ? halfKeys.length : floatKeys.length;
        return new KvLayout(numLayers, numKvHeads, headDim, Kernels.BLOCK_SIZE, format.bytes());
    }

    /** Writes one head of a block as it stands, little-endian: keys [head dim][slot], values [slot][head dim]. */
    void exportUnit(int layer, int block, int kvHead, byte[] target, int targetOffset) {
        int start = offset(block, kvHead);
        int count = headDim * Kernels.BLOCK_SIZE;
        ByteBuffer bytes = ByteBuffer.wrap(target, targetOffset, 2 * count * format.bytes())
                .order(ByteOrder.LITTLE_ENDIAN);
        if (format == NumberFormat.BFLOAT16) {
            bytes.asShortBuffer().put(halfKeys[layer], start, count).put(halfValues[layer], start, count);
        } else {
            bytes.asFloatBuffer().put(floatKeys[layer], start, count).put(floatValues[layer], start, count);
        }
    }

    /** Reads back what {@link #exportUnit} wrote. */
    void importUnit(int layer, int block, int kvHead, byte[] source, int sourceOffset) {
        int start = offset(block, kvHead);
        int count = headDim * Kernels.BLOCK_SIZE;
        ByteBuffer bytes = ByteBuffer.wrap(source, sourceOffset, 2 * count * format.bytes())
                .order(ByteOrder.LITTLE_ENDIAN);
        if (format == NumberFormat.BFLOAT16) {
            bytes.asShortBuffer().get(halfKeys[layer], start, count).get(halfValues[layer], start, count);
        } else {
            bytes.asFloatBuffer().get(floatKeys[layer], start, count).get(floatValues[layer], start, count);
        }
    }

    /** Widens one head of a block: keys [head dim][slot], then values [slot][head dim]. */
    void readUnit(int layer, int block, int kvHead, float[] unit) {
        int start = offset(block, kvHead);
        int count = headDim * Kernels.BLOCK_SIZE;
        if (format == NumberFormat.BFLOAT16) {
            short[] keys = halfKeys[layer];
            short[] values = halfValues[layer];
            for (int i = 0; i < count; i++) {
                unit[i] = Bfloat16.widen(keys[start + i]);
                unit[count + i] = Bfloat16.widen(values[start + i]);
            }
        } else {
            System.arraycopy(floatKeys[layer], start, unit, 0, count);
            System.arraycopy(floatValues[layer], start, unit, count, count);
        }
    }

    /** Stores, rounded to the pool's format, what {@link #readUnit} reads. */
    void writeUnit(int layer, int block, int kvHead, float[] unit) {
        int start = offset(block, kvHead);
        int count = headDim * Kernels.BLOCK_SIZE;
        if (format == NumberFormat.BFLOAT16) {
            short[] keys = halfKeys[layer];
            short[] values = halfValues[layer];
            for (int i = 0; i < count; i++) {
                keys[start + i] = Bfloat16.round(unit[i]);
                values[start + i] = Bfloat16.round(unit[count + i]);
            }
        } else {
            System.arraycopy(unit, 0, floatKeys[layer], start, count);
            System.arraycopy(unit, count, floatValues[layer], start, count);
        }
    }

    /** Copies a block in one layer. */
    void copyBlock(int layer, int source, int destination) {
        int count = elementsPerBlock();
        if (format == NumberFormat.BFLOAT16) {
            System.arraycopy(halfKeys[layer], source * count, halfKeys[layer], destination * count, count);
            System.arraycopy(halfValues[layer], source * count, halfValues[layer], destination * count, count);
        } else {
            System.arraycopy(floatKeys[layer], source * count, floatKeys[layer], destination * count, count);
            System.arraycopy(floatValues[layer], source * count, floatValues[layer], destination * count, count);
        }
    }
}
