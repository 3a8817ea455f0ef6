package io.millrace.backend;

/**
 * How KV of a run of blocks is numbered outside of the device: in units, one for each (layer, block of the run, KV head), in
 * that order, each with the keys and then the values of one block. A unit is the least that can be moved alone.
 *
 * @param numLayers layers of the model
 * @param numKvHeads KV heads of a layer
 * @param headDim numbers of a key, and of a value
 * @param blockSize tokens of a block
 * @param computedBytes bytes of a number as computed: 2 or 4; 1 where memory holds 8-bit numbers with scales
 */
public record KvLayout(int numLayers, int numKvHeads, int headDim, int blockSize, int computedBytes) {

    /** Units of a run of so many blocks. */
    public int numUnits(int numBlocks) {
        return Math.multiplyExact(Math.multiplyExact(numLayers, numBlocks), numKvHeads);
    }

    /**
     * Bytes of a unit. One of few bits begins with float32 scales, [blockSize] of the keys and [blockSize] of the values.
     */
    public int unitBytes(KvFormat format) {
        int numbers = 2 * blockSize * headDim;
        int scales = 2 * blockSize * Float.BYTES;
        return switch (format) {
            case AS_COMPUTED -> numbers * computedBytes + (computedBytes == 1 ? scales : 0);
            case INT8 -> scales + numbers;
            case INT4 -> scales + numbers / 2;
        };
    }

    /** Bytes of a run of so many blocks. */
    public long bytes(int numBlocks, KvFormat format) {
        return (long) numUnits(numBlocks) * unitBytes(format);
    }
}
