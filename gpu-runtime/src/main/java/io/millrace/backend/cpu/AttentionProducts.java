package io.millrace.backend.cpu;

import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.Kernels;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.util.Arrays;

/**
 * One compute thread's means to run attention's two products by the matrix library: operands outside of the Java heap, to
 * which tiles are copied. The pool's pairs already stand in the library's order. Up to a group's tiles are one product, since a
 * call takes as long as a dozen rows. The library adds a group's sums to the rows' accumulators, which stay here from group to
 * group, or leaves them open. Used by its thread only (closed by any once the thread is done with it).
 */
final class AttentionProducts implements AutoCloseable {
    /** Below this, copying a tile takes longer than the kernels need for it. */
    static final int MIN_ROWS = 32;

    /** Of one product. */
    static final int MAX_TILES = Kernels.GROUP_TILES;

    private static final int BLOCKS_PER_TILE = Kernels.TILE_SIZE / Kernels.BLOCK_SIZE;
    private static final int PAIRS_PER_BLOCK = Kernels.BLOCK_SIZE / 2;
    private static final int PAIRS_PER_TILE = Kernels.TILE_SIZE / 2;

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
    private final NativeBuffer openMemory;
    private final IntBuffer keyView;
    private final IntBuffer valueView;
    private final FloatBuffer accumulators;
    private final FloatBuffer openSums;
    private final PackedPanel[] keys = new PackedPanel[MAX_TILES + 1]; // by number of tiles, which share their memory
    private final PackedPanel[] begun = new PackedPanel[MAX_TILES + 1]; // the same of values, whose product is stored
    private final PackedPanel[] added = new PackedPanel[MAX_TILES + 1]; // the same again, whose product is added
    private final ActivationBuffer queries;
    private final ActivationBuffer weights; // [rows][most tiles × tile]
    private final short[] halves;
    private final int[] zeros;
    private final float[] rescaled;
    private final float[] ones;
    private boolean areHeld; // weights in halves, where they stand as in the buffer
    private boolean areBegun; // the accumulators: if not, they are 0 whatever they hold

    /** @param maxRows that are multiplied at a time */
    AttentionProducts(AttentionShapes shapes, int maxRows, Kernels kernels) {
        this.shapes = shapes;
        this.kernels = kernels;
        this.rowCounts = shapes.rowCounts();
        this.headDim = shapes.headDim();
        this.thread = new MatmulThread(RowCounts.LARGEST * MAX_TILES * Kernels.TILE_SIZE);
        this.keyMemory = new NativeBuffer(shapes.keys(MAX_TILES).packedBytes());
        this.valueMemory = new NativeBuffer(shapes.values(MAX_TILES, true).packedBytes());
        this.accumulatorMemory = new NativeBuffer(4L * (maxRows + RowCounts.LARGEST) * headDim);
        this.openMemory = new NativeBuffer(4L * (maxRows + RowCounts.LARGEST) * headDim);
        this.keyView = keyMemory.asByteBuffer().asIntBuffer();
        this.valueView = valueMemory.asByteBuffer().asIntBuffer();
        this.accumulators = accumulatorMemory.asByteBuffer().asFloatBuffer();
        this.openSums = openMemory.asByteBuffer().asFloatBuffer();
        for (int tiles = 1; tiles <= MAX_TILES; tiles++) {
            keys[tiles] = new PackedPanel(shapes.keys(tiles), keyMemory);
            begun[tiles] = new PackedPanel(shapes.values(tiles, false), valueMemory);
            added[tiles] = new PackedPanel(shapes.values(tiles, true), valueMemory);
        }
        this.queries = new ActivationBuffer(maxRows, headDim, NumberFormat.BFLOAT16, kernels);
        this.weights = new ActivationBuffer(maxRows, MAX_TILES * Kernels.TILE_SIZE, NumberFormat.BFLOAT16, kernels);
        this.halves = new short[maxRows * Math.max(headDim, MAX_TILES * Kernels.TILE_SIZE)];
        this.zeros = new int[PAIRS_PER_BLOCK * headDim];
        this.ones = new float[maxRows];
        Arrays.fill(ones, 1f);
        this.rescaled = new float[Math.max(CHUNK_ELEMENTS, headDim)];
        // Rows that are rounded up to must not be left to chance: garbage can be slow to add to.
        accumulators.put(0, new float[(maxRows + RowCounts.LARGEST) * headDim]);
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

    /**
     * Sets rows' weights of some of the tiles of the next product of values, bfloat16 numbers, [rows][tiles × tile size] from
     * the front of an array. {@link #sendWeights} must follow.
     */
    void putWeights(int firstTile, int numTiles, int firstRow, int numRows, float[] source) {
        int width = numTiles * Kernels.TILE_SIZE;
        if (numTiles == MAX_TILES) {
            kernels.narrow(source, 0, halves, 0, numRows * width);
            weights.putHalves(firstRow, halves, numRows * width);
            return;
        }
        areHeld = true;
        for (int r = 0; r < numRows; r++) {
            int to = (firstRow + r) * weights.width() + firstTile * Kernels.TILE_SIZE;
            kernels.narrow(source, r * width, halves, to, width);
        }
    }

    /** Sets rows' weights of a tile to 0. */
    void clearWeights(int tile, int firstRow, int numRows) {
        areHeld = true;
        for (int row = firstRow; row < firstRow + numRows; row++) {
            int at = row * weights.width() + tile * Kernels.TILE_SIZE;
            Arrays.fill(halves, at, at + Kernels.TILE_SIZE, (short) 0);
        }
    }

    /** Says that the rows' weights have been set. */
    void sendWeights(int firstRow, int numRows) {
        if (areHeld) {
            weights.putHalves(firstRow, halves, firstRow * weights.width(), numRows * weights.width());
            areHeld = false;
        }
    }

    /** Copies a row's weights to the front of an array, [most tiles × tile size]. */
    void readWeights(int row, float[] target) {
        weights.getHalves(row, halves, weights.width()); // which hold nothing once weights are sent
        for (int i = 0; i < weights.width(); i++) {
            target[i] = Bfloat16.widen(halves[i]);
        }
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

    /** Sets the values of one of the tiles of the next product, 0 from the given number of slots on. */
    void putValues(int tile, int numTiles, int[] pairs, int[] valueOffsets, int numSlots) {
        for (int b = 0; b < BLOCKS_PER_TILE; b++) {
            int first = tile * PAIRS_PER_TILE + b * PAIRS_PER_BLOCK;
            int numPairs = Math.min(PAIRS_PER_BLOCK, (numSlots + 1) / 2 - b * PAIRS_PER_BLOCK);
            if (numPairs < PAIRS_PER_BLOCK) {
                putValuePairs(first, PAIRS_PER_BLOCK, numTiles, zeros, 0);
            }
            if (numPairs > 0) {
                putValuePairs(first, numPairs, numTiles, pairs, valueOffsets[b]);
            }
        }
        if (numSlots % 2 != 0) {
            clearSecond(tile * PAIRS_PER_TILE + numSlots / 2, numTiles);
        }
    }

    /** Pairs in the library's order: some columns of all pairs of the tiles, then the next columns. */
    private void putValuePairs(int firstPair, int numPairs, int numTiles, int[] source, int from) {
        int width = shapes.valueBlockWidth();
        if (width == headDim) {
            valueView.put(firstPair * width, source, from, numPairs * width);
            return;
        }
        for (int pair = 0; pair < numPairs; pair++) {
            int to = (firstPair + pair) * width;
            for (int d = 0; d < headDim; d += width, to += numTiles * PAIRS_PER_TILE * width) {
                valueView.put(to, source, from + pair * headDim + d, width);
            }
        }
    }

    private void clearSecond(int pair, int numTiles) {
        int width = shapes.valueBlockWidth();
        for (int d = 0; d < headDim; d++) {
            int at = d / width * (numTiles * PAIRS_PER_TILE * width) + pair * width + d % width;
            valueView.put(at, valueView.get(at) & 0xffff);
        }
    }

    /** Sets all accumulators to 0; all rows must see something of the first group that follows. */
    void clearAccumulators() {
        areBegun = false;
    }

    /** Says that the first group has been multiplied for all rows, and its sums have not been left open. */
    void beginAccumulators() {
        areBegun = true;
    }

    /** Sets rows' accumulators, [rows][head dim] from the front of an array and of the rows. */
    void putAccumulators(float[] source, int numRows) {
        accumulators.put(0, source, 0, numRows * headDim);
        areBegun = true;
    }

    /** Sets a row's accumulators to what stands at its place in an array. */
    void putAccumulators(int row, float[] source) {
        if (!areBegun) {
            zeroAccumulators(); // hardly ever: a maximum raised twice from the start
        }
        accumulators.put(row * headDim, source, row * headDim, headDim);
    }

    private void zeroAccumulators() {
        Arrays.fill(rescaled, 0f);
        for (int at = 0; at < accumulators.capacity(); at += rescaled.length) {
            accumulators.put(at, rescaled, 0, Math.min(rescaled.length, accumulators.capacity() - at));
        }
        areBegun = true;
    }

    /** Copies a row's accumulators to its place in an array. */
    void readAccumulators(int row, float[] target) {
        if (areBegun) {
            accumulators.get(row * headDim, target, row * headDim, headDim);
        } else {
            Arrays.fill(target, row * headDim, (row + 1) * headDim, 0f);
        }
    }

    /** Sets a row's open sums to what stands at its place in an array. */
    void putOpenSums(int row, float[] source) {
        openSums.put(row * headDim, source, row * headDim, headDim);
    }

    /** Copies rows' open sums to their places in an array. */
    void readOpenSums(float[] target, int firstRow, int numRows) {
        openSums.get(firstRow * headDim, target, firstRow * headDim, numRows * headDim);
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
     * {@link Kernels#accumulate} from 0 on of rows' weights of some tiles with the values that were set, added to the rows'
     * accumulators or left as open sums.
     *
     * @return how many rows from firstRow on were computed
     */
    int multiplyValues(int numTiles, boolean staysOpen, int firstRow, int numRows) {
        int candidate = rowCounts.next(numRows);
        multiplyValuesByCandidate(numTiles, staysOpen, firstRow, candidate);
        return Math.min(RowCounts.CANDIDATES[candidate], numRows);
    }

    /** The same for exactly a candidate's number of rows, whether it is accepted or not. */
    void multiplyValuesByCandidate(int numTiles, boolean staysOpen, int firstRow, int candidate) {
        PackedPanel panel = areBegun && !staysOpen ? added[numTiles] : begun[numTiles];
        NativeBuffer target = staysOpen ? openMemory : accumulatorMemory;
        thread.multiply(weights, firstRow, 0, candidate, panel, target, 4L * firstRow * headDim);
    }

    /** Copies neighbouring elements of the last product of scores to the front of an array. */
    void read(int firstElement, float[] target, int numElements) {
        thread.readProduct(firstElement, target, 0, numElements);
    }

    @Override
    public void close() {
        thread.close();
        for (int tiles = 1; tiles <= MAX_TILES; tiles++) {
            keys[tiles].close();
            begun[tiles].close();
            added[tiles].close();
        }
        keyMemory.close();
        valueMemory.close();
        accumulatorMemory.close();
        openMemory.close();
        queries.close();
        weights.close();
    }
}
