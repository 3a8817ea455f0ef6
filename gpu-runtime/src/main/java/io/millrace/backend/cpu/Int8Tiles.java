package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;

/** Tiles of 8-bit numbers, whose keys and values are widened to float32, each once they are asked for. */
final class Int8Tiles extends FloatTiles {
    private final float[] keys; // [blocks][head dim][slot]
    private final float[] values; // [blocks][slot][head dim]
    private final int[] blocks = new int[BLOCKS_PER_TILE];
    private int kvHead;
    private boolean areKeysWide;
    private boolean areValuesWide;

    Int8Tiles(KvPool pool, Kernels kernels, int headDim) {
        super(pool, kernels, headDim);
        keys = new float[Kernels.TILE_SIZE * headDim];
        values = new float[Kernels.TILE_SIZE * headDim];
        for (int b = 0; b < BLOCKS_PER_TILE; b++) {
            keyOffsets[b] = b * Kernels.BLOCK_SIZE * headDim;
            valueOffsets[b] = keyOffsets[b];
        }
    }

    @Override
    void findBlock(int b, int block, int kvHead) {
        this.kvHead = kvHead;
        blocks[b] = block;
        areKeysWide = false;
        areValuesWide = false;
    }

    @Override
    float[] keys() {
        for (int b = 0; b < numBlocks() && !areKeysWide; b++) {
            pool.readInt8Keys(layer(), blocks[b], kvHead, keys, keyOffsets[b]);
        }
        areKeysWide = true;
        return keys;
    }

    @Override
    float[] values() {
        for (int b = 0; b < numBlocks() && !areValuesWide; b++) {
            pool.readInt8Values(layer(), blocks[b], kvHead, values, valueOffsets[b]);
        }
        areValuesWide = true;
        return values;
    }
}
