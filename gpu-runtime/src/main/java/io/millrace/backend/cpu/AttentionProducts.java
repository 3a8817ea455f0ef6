package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.util.Arrays;

/**
 * One compute thread's means to run attention's two products by the matrix library: operands outside of the Java heap, to
 * which tiles are copied. The pool's pairs already stand in the library's order. Scores of several tiles are one product,
 * since a call takes as long as a dozen rows; sums are one a tile, since each tile's are added up by themselves. The library
 * adds them to the rows' accumulators, which stay here from tile to tile. Used by its thread only (closed by any once the
 * thread is done with it).
 */
final class AttentionProducts implements AutoCloseable {
    /** Below this, copying a tile takes longer than the kernels need for it. */
    static final int MIN_ROWS = 32;

    /** Of one product of scores. */
    static final int MAX_TILES = 4;

    private static final int BLOCKS_PER_TILE = Kernels.TILE_SIZE / Kernels.BLOCK_SIZE;
    private static final int PAIRS_PER_BLOCK = Kernels.BLOCK_SIZE / 2;

    /** Elements of accumulators that are rescaled together: they stay in the first-level cache. */
    private static final int CHUNK_ELEMENTS = 2048;

    /** Added to two bfloat16 numbers without their signs and mantissas, it carries into the sign of one that is not finite. */
    private static final int CARRY = 0x00800080;

    private final AttentionShapes shapes;
    private final Kernels kernels;
    private final RowCounts rowCounts;
    private final int headDim;
    private final MatmulThread thread;
    private final NativeBuffer keyMemory;
    private final NativeBuffer valueMemory;
    private final NativeBuffer accumulatorMemory;
    private final IntBuffer keyView;
    private final IntBuffer valueView;
    private final FloatBuffer accumulators;
    private final PackedPanel[] keys = new PackedPanel[MAX_TILES + 1]; // by number of tiles, which share their memory
    private final PackedPanel[] values = new PackedPanel[4]; // which share their memory; order of AttentionShapes
    private final ActivationBuffer queries;
    private final ActivationBuffer weights; // [rows][tiles of one product of scores × tile]
    private final ActivationBuffer weightsOfOne; // the same where it is one tile
    private final short[] halves;
    private final int[] zeros;
    private final float[] rescaled;
    private final float[] ones;
    private boolean areOfSeveral; // the weights that were put last
    private boolean areBegun; // the accumulators: if not, they are 0 whatever they hold

    /** @param maxRows that are multiplied at a time */
    AttentionProducts(AttentionShapes shapes, int maxRows, Kernels kernels) {
        this.shapes = shapes;
        this.kernels = kernels;
        this.rowCounts = shapes.rowCounts();
        this.headDim = shapes.headDim();
        this.thread = new MatmulThread(RowCounts.LARGEST * MAX_TILES * Kernels.TILE_SIZE);
        this.keyMemory = new NativeBuffer(shapes.keys(MAX_TILES).packedBytes());
        this.valueMemory = new NativeBuffer(shapes.values(true, true).packedBytes());
        this.accumulatorMemory = new NativeBuffer(4L * (maxRows + RowCounts.LARGEST) * headDim);
        this.keyView = keyMemory.asByteBuffer().asIntBuffer();
        this.valueView = valueMemory.asByteBuffer().asIntBuffer();
        this.accumulators = accumulatorMemory.asByteBuffer().asFloatBuffer();
        for (int tiles = 1; tiles <= MAX_TILES; tiles *= 2) {
            keys[tiles] = new PackedPanel(shapes.keys(tiles), keyMemory);
        }
        for (int i = 0; i < values.length; i++) {
            values[i] = new PackedPanel(shapes.values(i >= 2, i % 2 != 0), valueMemory);
        }
        this.queries = new ActivationBuffer(maxRows, headDim, NumberFormat.BFLOAT16, kernels);
        this.weights = new ActivationBuffer(maxRows, MAX_TILES * Kernels.TILE_SIZE, NumberFormat.BFLOAT16, kernels);
        this.weightsOfOne = new ActivationBuffer(maxRows, Kernels.TILE_SIZE, NumberFormat.BFLOAT16, kernels);
        this.halves = new short[maxRows * Math.max(headDim, MAX_TILES * Kernels.TILE_SIZE)];
        this.zeros = new int[PAIRS_PER_BLOCK * headDim];
        this.ones = new float[maxRows];
        Arrays.fill(ones, 1f);
        this.rescaled = new float[Math.max(CHUNK_ELEMENTS, headDim)];
        // Rows that are rounded up to must not be left to chance: garbage can be slow to add to.
        accumulators.put(0, new float[(maxRows + RowCounts.LARGEST) * headDim]);
    }

    /** The most tiles, up to some number, whose scores are one product. */
    static int tilesTogether(int numTiles) {
        return Integer.highestOneBit(Math.min(MAX_TILES, numTiles));
    }

    /** Sets the queries of the products to come, [rows][head dim] of bfloat16 numbers. */
    void putQueries(float[] source, int numRows) {
        kernels.toBfloat16(source, 0, halves, 0, numRows * headDim);
        queries.putHalves(0, halves, numRows * headDim);
    }

    /** Sets the keys of one of the tiles of the next product; of blocks that are not given, scores are left to chance. */
    void putKeys(int tile, int[] pairs, int[] keyOffsets, int numBlocks) {
        int blockInts = PAIRS_PER_BLOCK * headDim;
        for (int b = 0; b < numBlocks; b++) {
            keyView.put((tile * BLOCKS_PER_TILE + b) * blockInts, pairs, keyOffsets[b], blockInts);
        }
    }

    /**
     * {@link Kernels#scores} of rows of {@link #putQueries} with the tiles that were set, as [rows][tiles × tile size] for
     * {@link #read}.
     *
     * @return how many rows from firstRow on were computed
     */
    int multiplyKeys(int numTiles, int firstRow, int numRows) {
        int candidate = rowCounts.next(numRows);
        multiplyKeysByCandidate(numTiles, firstRow, candidate);
        return Math.min(RowCounts.CANDIDATES[candidate], numRows);
    }

    /** The same for exactly a candidate's number of rows, whether it is accepted or not. */
    void multiplyKeysByCandidate(int numTiles, int firstRow, int candidate) {
        thread.multiply(queries, firstRow, candidate, keys[numTiles]);
    }

    /** Sets rows of the tiles' weights, bfloat16 numbers, [rows][tiles × tile size] from the front of an array. */
    void putWeights(int numTiles, int firstRow, int numRows, float[] source) {
        int width = numTiles * Kernels.TILE_SIZE;
        areOfSeveral = numTiles > 1;
        if (!areOfSeveral) {
            kernels.narrow(source, 0, halves, 0, numRows * width);
            weightsOfOne.putHalves(firstRow, halves, numRows * width);
            return;
        }
        if (numTiles == MAX_TILES) {
            kernels.narrow(source, 0, halves, 0, numRows * width);
        } else {
            for (int r = 0; r < numRows; r++) {
                kernels.narrow(source, r * width, halves, r * weights.width(), width);
            }
        }
        weights.putHalves(firstRow, halves, numRows * weights.width());
    }

    /** Whether a tile's values up to a slot are all finite: only then a weight of 0 adds nothing. */
    boolean areFinite(int[] pairs, int[] valueOffsets, int numSlots) {
        int carries = 0;
        for (int slot = 0; slot < numSlots; slot += 2) {
            int at = valueOffsets[slot / Kernels.BLOCK_SIZE] + slot % Kernels.BLOCK_SIZE / 2 * headDim;
            int mask = slot + 1 < numSlots ? 0x7f807f80 : 0x7f80;
            for (int d = 0; d < headDim; d++) {
                carries |= (pairs[at + d] & mask) + CARRY;
            }
        }
        return (carries & 0x80008000) == 0;
    }

    /** Sets the values of the next product, 0 from the given number of slots on. */
    void putValues(int[] pairs, int[] valueOffsets, int numSlots) {
        for (int b = 0; b < BLOCKS_PER_TILE; b++) {
            int numPairs = Math.min(PAIRS_PER_BLOCK, (numSlots + 1) / 2 - b * PAIRS_PER_BLOCK);
            if (numPairs < PAIRS_PER_BLOCK) {
                putValuePairs(b * PAIRS_PER_BLOCK, PAIRS_PER_BLOCK, zeros, 0);
            }
            if (numPairs > 0) {
                putValuePairs(b * PAIRS_PER_BLOCK, numPairs, pairs, valueOffsets[b]);
            }
        }
        if (numSlots % 2 != 0) {
            clearSecond(numSlots / 2);
        }
    }

    /** Pairs in the library's order: some columns of all pairs of the tile, then the next columns. */
    private void putValuePairs(int firstPair, int numPairs, int[] source, int from) {
        int width = shapes.valueBlockWidth();
        if (width == headDim) {
            valueView.put(firstPair * width, source, from, numPairs * width);
            return;
        }
        for (int pair = 0; pair < numPairs; pair++) {
            int to = (firstPair + pair) * width;
            for (int d = 0; d < headDim; d += width, to += Kernels.TILE_SIZE / 2 * width) {
                valueView.put(to, source, from + pair * headDim + d, width);
            }
        }
    }

    private void clearSecond(int pair) {
        int width = shapes.valueBlockWidth();
        for (int d = 0; d < headDim; d++) {
            int at = d / width * (Kernels.TILE_SIZE / 2 * width) + pair * width + d % width;
            valueView.put(at, valueView.get(at) & 0xffff);
        }
    }

    /** Sets all accumulators to 0; all rows must see the first tile that follows. */
    void clearAccumulators() {
        areBegun = false;
    }

    /** Says that the first tile has been multiplied for all rows. */
    void beginAccumulators() {
        areBegun = true;
    }

    /** Sets rows' accumulators, [rows][head dim] from the front of an array and of the rows. */
    void putAccumulators(float[] source, int numRows) {
        accumulators.put(0, source, 0, numRows * headDim);
        areBegun = true;
    }

    /** Copies rows' accumulators. */
    void readAccumulators(float[] target, int numRows) {
        if (areBegun) {
            accumulators.get(0, target, 0, numRows * headDim);
        } else {
            Arrays.fill(target, 0, numRows * headDim, 0f);
        }
    }

    /** Multiplies rows' accumulators by factors; most are 1, which changes nothing. */
    void rescale(float[] factors, int firstRow, int numRows) {
        if (!areBegun) {
            return;
        }
        int end = firstRow + numRows;
        int most = Math.max(1, CHUNK_ELEMENTS / headDim);
        int row = firstRow;
        while (true) {
            int numOnes = Arrays.mismatch(factors, row, end, ones, 0, end - row);
            if (numOnes < 0) {
                return;
            }
            int start = row + numOnes;
            row = start + 1;
            while (row < end && row - start < most && factors[row] != 1f) {
                row++;
            }
            rescaleAll(factors, start, row - start);
        }
    }

    private void rescaleAll(float[] factors, int firstRow, int numRows) {
        accumulators.get(firstRow * headDim, rescaled, 0, numRows * headDim);
        for (int r = 0; r < numRows; r++) {
            kernels.scale(rescaled, r * headDim, factors[firstRow + r], headDim);
        }
        accumulators.put(firstRow * headDim, rescaled, 0, numRows * headDim);
    }

    /**
     * Adds {@link Kernels#accumulate} of a tile's weights with the values that were set to the rows' accumulators.
     *
     * @return how many rows from firstRow on were computed
     */
    int multiplyValues(int tile, int firstRow, int numRows) {
        int candidate = rowCounts.next(numRows);
        multiplyValuesByCandidate(tile, firstRow, candidate);
        return Math.min(RowCounts.CANDIDATES[candidate], numRows);
    }

    /** The same for exactly a candidate's number of rows, whether it is accepted or not. */
    void multiplyValuesByCandidate(int tile, int firstRow, int candidate) {
        PackedPanel panel = values[(areOfSeveral ? 2 : 0) + (areBegun ? 1 : 0)];
        ActivationBuffer source = areOfSeveral ? weights : weightsOfOne;
        int firstColumn = tile * Kernels.TILE_SIZE;
        thread.multiply(source, firstRow, firstColumn, candidate, panel, accumulatorMemory, 4L * firstRow * headDim);
    }

    /** Copies neighbouring elements of the last product of scores to the front of an array. */
    void read(int firstElement, float[] target, int numElements) {
        thread.readProduct(firstElement, target, 0, numElements);
    }

    @Override
    public void close() {
        thread.close();
        for (PackedPanel panel : keys) {
            if (panel != null) {
                panel.close();
            }
        }
        for (PackedPanel panel : values) {
            panel.close();
        }
        keyMemory.close();
        valueMemory.close();
        accumulatorMemory.close();
        queries.close();
        weights.close();
        weightsOfOne.close();
    }
}
