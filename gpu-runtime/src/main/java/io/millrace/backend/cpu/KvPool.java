package io.millrace.backend.cpu;

import io.millrace.backend.KvCacheDtype;
import io.millrace.backend.KvLayout;
import io.millrace.engine.InvalidConfigException;
import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.Kernels;
import io.millrace.model.ModelSpec;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * KV memory of one engine: one array a layer, in Java's heap (the Vector API of JDK 17 to 25 has only arrays in common). All
 * blocks of one KV head lie together, and a block's keys lie right before its values: attention reads a sequence head by
 * head, and memory is fastest where neighbours are read in turn. Keys stand as [head dim][slot] and values as
 * [slot][head dim], so that both of attention's products read whole vectors. In bfloat16 two elements that one sum takes in
 * turn share an int: keys as [head dim / 2][slot] of elements (2 i, 2 i + 1), values as [slot / 2][head dim] of slots (s, s + 1),
 * which is also how the matrix library wants them. Distinct blocks may be written by distinct threads, and distinct slots
 * too, but in bfloat16 only one of the two that share ints.
 *
 * <p>With 8 bits a number ({@link KvCacheDtype#INT8}) keys stand as [head dim][slot] and values as [slot][head dim] too, and a
 * block's scales of a head, [slot] of its keys and [slot] of its values, in an array of their own. A token is rounded when it is
 * written, by itself, so that its bits depend on nothing else.
 */
final class KvPool {
    /** Of a block and head: one for each key and each value. */
    private static final int SCALES = 2 * Kernels.BLOCK_SIZE;

    private static final long MAX_ARRAY_ELEMENTS = Integer.MAX_VALUE - 8;

    /**
     * Bytes of an array before its first block. G1 lets arrays of this size begin at a region, 16 bytes before their elements:
     * so every block begins with a page of 4 KiB, where hardware that reads ahead stops, and no vector lies in two cache
     * lines. With other collectors only that is lost.
     */
    private static final int FIRST_BLOCK_BYTES = 4096 - 16;

    private final NumberFormat format; // of the computation
    private final boolean isInt8;
    private final int numLayers;
    private final int numKvHeads;
    private final int headDim;
    private final int numBlocks;
    private final int keyElements;
    private final int firstElement;
    private final long bytesPerBlock;
    private final int[][] pairs;
    private final float[][] floats;
    private final byte[][] bytes;
    private final float[][] scales;

    /**
     * Allocates all of it.
     *
     * @throws InvalidConfigException if the memory is below one block or the heap cannot hold it
     */
    KvPool(ModelSpec spec, NumberFormat format, KvCacheDtype dtype, long memoryBytes) {
        this(spec.numLayers(), spec.numKvHeads(), spec.headDim(), format, dtype, memoryBytes);
    }

    KvPool(int numLayers, int numKvHeads, int headDim, NumberFormat format, KvCacheDtype dtype, long memoryBytes) {
        this.format = format;
        this.isInt8 = dtype == KvCacheDtype.INT8;
        this.numKvHeads = numKvHeads;
        this.headDim = headDim;
        this.keyElements =
                isInt8 ? headDim * Kernels.BLOCK_SIZE : headDim * Kernels.BLOCK_SIZE * format.bytes() / Integer.BYTES;
        this.firstElement = FIRST_BLOCK_BYTES / (isInt8 ? Byte.BYTES : Integer.BYTES);
        int blockElements = Math.multiplyExact(2 * keyElements, numKvHeads);
        this.numLayers = numLayers;
        this.bytesPerBlock = (long) numLayers
                * (isInt8 ? blockElements + numKvHeads * SCALES * Float.BYTES : (long) blockElements * Integer.BYTES);
        this.numBlocks = numBlocks(memoryBytes, blockElements);
        checkHeap(memoryBytes);
        boolean isHalf = format == NumberFormat.BFLOAT16 && !isInt8;
        pairs = isHalf ? new int[numLayers][] : null;
        floats = isHalf || isInt8 ? null : new float[numLayers][];
        bytes = isInt8 ? new byte[numLayers][] : null;
        scales = isInt8 ? new float[numLayers][] : null;
        try {
            for (int layer = 0; layer < numLayers; layer++) {
                if (isInt8) {
                    bytes[layer] = new byte[firstElement + numBlocks * blockElements];
                    scales[layer] = new float[numBlocks * numKvHeads * SCALES];
                } else if (isHalf) {
                    pairs[layer] = new int[firstElement + numBlocks * blockElements];
                } else {
                    floats[layer] = new float[firstElement + numBlocks * blockElements];
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
        long maxBlocks = (MAX_ARRAY_ELEMENTS - firstElement) / blockElements;
        if (blocks > maxBlocks) {
            throw new InvalidConfigException(
                    "--kv-cache-memory-bytes",
                    memoryBytes,
                    "a layer's keys and values must fit one Java array: at most " + maxBlocks * bytesPerBlock
                            + " bytes",
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

    /** Whether it holds 8-bit numbers, whatever the computation's format; attention has to {@link #readUnit} them. */
    boolean isInt8() {
        return isInt8;
    }

    int numBlocks() {
        return numBlocks;
    }

    /** K and V over all layers. */
    long bytesPerBlock() {
        return bytesPerBlock;
    }

    /** Elements of a layer's array from where a block's keys of a KV head begin to where its values end. */
    int elementsOfHead() {
        return 2 * keyElements;
    }

    /** Elements of a layer's array that a cache line of 64 bytes holds. */
    int elementsOfCacheLine() {
        return isInt8 ? 64 : 64 / Integer.BYTES;
    }

    /** Reads an element of a layer's array, to have it in the cache; returns bits of it. */
    int touch(int layer, int element) {
        if (isPaired()) {
            return pairs[layer][element];
        }
        return isInt8 ? bytes[layer][element] : Float.floatToRawIntBits(floats[layer][element]);
    }

    /** Where a block's keys of a KV head begin in a layer's array. */
    int keyOffset(int block, int kvHead) {
        return firstElement + (kvHead * numBlocks + block) * 2 * keyElements;
    }

    /** Where a block's values of a KV head begin in a layer's array. */
    int valueOffset(int block, int kvHead) {
        return keyOffset(block, kvHead) + keyElements;
    }

    /** A layer's keys and values where the format is bfloat16. */
    int[] pairs(int layer) {
        return pairs[layer];
    }

    /** A layer's keys and values where the format is float32. */
    float[] floats(int layer) {
        return floats[layer];
    }

    /** Whether two bfloat16 elements share an int, see {@link #pairs}. */
    boolean isPaired() {
        return pairs != null;
    }

    /** Stores the values of an even slot and the next one of one head, where they are paired. */
    void writeValuePair(int layer, int slot, int kvHead, float[] source, int low, int high, Kernels kernels) {
        kernels.pairBfloat16(source, low, source, high, pairs[layer], valuePair(slot, kvHead), headDim);
    }

    private int valuePair(int slot, int kvHead) {
        return valueOffset(slot / Kernels.BLOCK_SIZE, kvHead)
                + Bfloat16.valuePair(slot % Kernels.BLOCK_SIZE, 0, headDim);
    }

    /** Stores one token's key of one head, where elements are paired; rounded to bfloat16 before. */
    void writeKey(int layer, int slot, int kvHead, float[] source, int sourceKey) {
        int[] to = pairs[layer];
        int key = keyOffset(slot / Kernels.BLOCK_SIZE, kvHead) + slot % Kernels.BLOCK_SIZE;
        for (int d = 0; d < headDim; d += 2, key += Kernels.BLOCK_SIZE) {
            to[key] = Float.floatToRawIntBits(source[sourceKey + d]) >>> 16
                    | Float.floatToRawIntBits(source[sourceKey + d + 1]);
        }
    }

    /** Stores one token's value of one head, where two slots are paired; the other slot's stay. */
    void writeValue(int layer, int slot, int kvHead, float[] source, int sourceValue, Kernels kernels) {
        boolean isHigh = slot % 2 != 0;
        kernels.putBfloat16(source, sourceValue, pairs[layer], valuePair(slot, kvHead), headDim, isHigh);
    }

    /** Stores one token's key and value of one head, where slots are not paired. */
    void write(int layer, int slot, int kvHead, float[] source, int sourceKey, int sourceValue) {
        int block = slot / Kernels.BLOCK_SIZE;
        int slotInBlock = slot % Kernels.BLOCK_SIZE;
        int key = keyOffset(block, kvHead) + slotInBlock;
        int value = valueOffset(block, kvHead);
        if (isInt8) {
            int scale = scaleOffset(block, kvHead) + slotInBlock;
            writeInt8(layer, scale, source, sourceKey, key, Kernels.BLOCK_SIZE);
            writeInt8(layer, scale + Kernels.BLOCK_SIZE, source, sourceValue, value + slotInBlock * headDim, 1);
        } else {
            float[] to = floats[layer];
            for (int d = 0; d < headDim; d++) {
                to[key + d * Kernels.BLOCK_SIZE] = source[sourceKey + d];
            }
            System.arraycopy(source, sourceValue, to, value + slotInBlock * headDim, headDim);
        }
    }

    /** Rounds one token's key or value of a head, whose elements will stand a stride apart. */
    private void writeInt8(int layer, int scaleAt, float[] source, int from, int to, int stride) {
        int largest = 0;
        for (int d = 0; d < headDim; d++) {
            largest = Math.max(largest, Float.floatToRawIntBits(source[from + d]) & 0x7fffffff);
        }
        float scale = KvQuantizer.scale(largest, KvQuantizer.INT8_LEVELS);
        float inverse = KvQuantizer.inverse(scale);
        byte[] numbers = bytes[layer];
        for (int d = 0; d < headDim; d++) {
            numbers[to + d * stride] = KvQuantizer.round(source[from + d], inverse);
        }
        scales[layer][scaleAt] = scale;
    }

    private int scaleOffset(int block, int kvHead) {
        return (kvHead * numBlocks + block) * SCALES;
    }

    /** Shape of what leaves the pool. */
    KvLayout layout() {
        return new KvLayout(numLayers, numKvHeads, headDim, Kernels.BLOCK_SIZE, isInt8 ? 1 : format.bytes());
    }

    /** Writes one head of a block as it stands in memory, little-endian; scales first where there are any. */
    void exportUnit(int layer, int block, int kvHead, byte[] target, int targetOffset) {
        int start = keyOffset(block, kvHead);
        ByteBuffer unit = unitBytes(target, targetOffset);
        if (isInt8) {
            unit.asFloatBuffer().put(scales[layer], scaleOffset(block, kvHead), SCALES);
            System.arraycopy(bytes[layer], start, target, targetOffset + SCALES * Float.BYTES, 2 * keyElements);
        } else if (format == NumberFormat.BFLOAT16) {
            unit.asIntBuffer().put(pairs[layer], start, 2 * keyElements);
        } else {
            unit.asFloatBuffer().put(floats[layer], start, 2 * keyElements);
        }
    }

    /** Reads back what {@link #exportUnit} wrote. */
    void importUnit(int layer, int block, int kvHead, byte[] source, int sourceOffset) {
        int start = keyOffset(block, kvHead);
        ByteBuffer unit = unitBytes(source, sourceOffset);
        if (isInt8) {
            unit.asFloatBuffer().get(scales[layer], scaleOffset(block, kvHead), SCALES);
            System.arraycopy(source, sourceOffset + SCALES * Float.BYTES, bytes[layer], start, 2 * keyElements);
        } else if (format == NumberFormat.BFLOAT16) {
            unit.asIntBuffer().get(pairs[layer], start, 2 * keyElements);
        } else {
            unit.asFloatBuffer().get(floats[layer], start, 2 * keyElements);
        }
    }

    private ByteBuffer unitBytes(byte[] array, int offset) {
        int size = isInt8 ? SCALES * Float.BYTES : 2 * keyElements * Integer.BYTES;
        return ByteBuffer.wrap(array, offset, size).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** Widens one head of a block: keys [head dim][slot], then values [slot][head dim]. */
    void readUnit(int layer, int block, int kvHead, float[] unit) {
        int key = keyOffset(block, kvHead);
        if (isInt8) {
            readInt8Keys(layer, block, kvHead, unit, 0);
            readInt8Values(layer, block, kvHead, unit, keyElements);
            return;
        }
        if (format != NumberFormat.BFLOAT16) {
            System.arraycopy(floats[layer], key, unit, 0, 2 * keyElements);
            return;
        }
        int[] from = pairs[layer];
        int value = valueOffset(block, kvHead);
        for (int slot = 0; slot < Kernels.BLOCK_SIZE; slot += 2) {
            int unitKey = slot;
            for (int i = 0; i < headDim / 2; i++, unitKey += 2 * Kernels.BLOCK_SIZE) {
                int first = from[key + i * Kernels.BLOCK_SIZE + slot];
                int second = from[key + i * Kernels.BLOCK_SIZE + slot + 1];
                unit[unitKey] = Bfloat16.low(first);
                unit[unitKey + 1] = Bfloat16.low(second);
                unit[unitKey + Kernels.BLOCK_SIZE] = Bfloat16.high(first);
                unit[unitKey + Kernels.BLOCK_SIZE + 1] = Bfloat16.high(second);
            }
            int unitValue = (Kernels.BLOCK_SIZE + slot) * headDim;
            for (int d = 0; d < headDim; d++) {
                int both = from[value + Bfloat16.valuePair(slot, d, headDim)];
                unit[unitValue + d] = Bfloat16.low(both);
                unit[unitValue + headDim + d] = Bfloat16.high(both);
            }
        }
    }

    /** Widens a head's keys of a block of 8-bit numbers to float32, [head dim][slot]. */
    void readInt8Keys(int layer, int block, int kvHead, float[] keys, int keysAt) {
        byte[] numbers = bytes[layer];
        float[] from = scales[layer];
        int scale = scaleOffset(block, kvHead);
        int key = keyOffset(block, kvHead);
        for (int at = 0; at < keyElements; at += Kernels.BLOCK_SIZE) {
            for (int slot = 0; slot < Kernels.BLOCK_SIZE; slot++) {
                keys[keysAt + at + slot] = numbers[key + at + slot] * from[scale + slot];
            }
        }
    }

    /** Widens a head's values of a block of 8-bit numbers to float32, [slot][head dim]. */
    void readInt8Values(int layer, int block, int kvHead, float[] values, int valuesAt) {
        byte[] numbers = bytes[layer];
        float[] from = scales[layer];
        int scale = scaleOffset(block, kvHead) + Kernels.BLOCK_SIZE;
        int value = valueOffset(block, kvHead);
        for (int slot = 0; slot < Kernels.BLOCK_SIZE; slot++) {
            float factor = from[scale + slot];
            int start = slot * headDim;
            for (int d = 0; d < headDim; d++) {
                values[valuesAt + start + d] = numbers[value + start + d] * factor;
            }
        }
    }

    /** Stores, rounded to the pool's format, what {@link #readUnit} reads. */
    void writeUnit(int layer, int block, int kvHead, float[] unit) {
        int key = keyOffset(block, kvHead);
        if (isInt8) {
            writeUnitInt8(layer, block, kvHead, unit);
            return;
        }
        if (format != NumberFormat.BFLOAT16) {
            System.arraycopy(unit, 0, floats[layer], key, 2 * keyElements);
            return;
        }
        int[] to = pairs[layer];
        int value = valueOffset(block, kvHead);
        for (int slot = 0; slot < Kernels.BLOCK_SIZE; slot += 2) {
            int unitKey = slot;
            for (int i = 0; i < headDim / 2; i++, unitKey += 2 * Kernels.BLOCK_SIZE) {
                int at = key + i * Kernels.BLOCK_SIZE + slot;
                to[at] = Bfloat16.pair(unit[unitKey], unit[unitKey + Kernels.BLOCK_SIZE]);
                to[at + 1] = Bfloat16.pair(unit[unitKey + 1], unit[unitKey + Kernels.BLOCK_SIZE + 1]);
            }
            int unitValue = (Kernels.BLOCK_SIZE + slot) * headDim;
            for (int d = 0; d < headDim; d++) {
                to[value + Bfloat16.valuePair(slot, d, headDim)] =
                        Bfloat16.pair(unit[unitValue + d], unit[unitValue + headDim + d]);
            }
        }
    }

    private void writeUnitInt8(int layer, int block, int kvHead, float[] unit) {
        float[] key = new float[headDim];
        int scale = scaleOffset(block, kvHead);
        for (int slot = 0; slot < Kernels.BLOCK_SIZE; slot++) {
            for (int d = 0; d < headDim; d++) {
                key[d] = unit[d * Kernels.BLOCK_SIZE + slot];
            }
            writeInt8(layer, scale + slot, key, 0, keyOffset(block, kvHead) + slot, Kernels.BLOCK_SIZE);
            int value = valueOffset(block, kvHead) + slot * headDim;
            writeInt8(layer, scale + Kernels.BLOCK_SIZE + slot, unit, keyElements + slot * headDim, value, 1);
        }
    }

    /** Copies a block in one layer. */
    void copyBlock(int layer, int source, int destination) {
        Object all = isInt8 ? bytes[layer] : format == NumberFormat.BFLOAT16 ? pairs[layer] : floats[layer];
        for (int head = 0; head < numKvHeads; head++) {
            if (isInt8) {
                float[] each = scales[layer];
                System.arraycopy(each, scaleOffset(source, head), each, scaleOffset(destination, head), SCALES);
            }
            System.arraycopy(all, keyOffset(source, head), all, keyOffset(destination, head), 2 * keyElements);
        }
    }
}
