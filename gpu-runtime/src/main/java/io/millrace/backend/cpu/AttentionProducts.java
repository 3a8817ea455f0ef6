package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import java.nio.FloatBuffer;
import java.util.Arrays;

/**
 * One compute thread's means to run attention's two products by the matrix library: operands outside of the Java heap, to
 * which tiles are copied as they stand. Up to a group's tiles are one product, since a
 * call takes as long as a dozen rows. The library adds a group's sums to the rows' accumulators, which stay here from group to
 * group, or leaves them open. Used by its thread only (closed by any once the thread is done with it).
 */
final class AttentionProducts implements AutoCloseable {
    /** Below this, copying a tile takes longer than the kernels need for it. */
    static final int MIN_ROWS = 32;

    /** Of one product. */
    static final int MAX_TILES = Kernels.GROUP_TILES;

    /** Elements of accumulators that are rescaled together: they stay in the first-level cache. */
    private static final int CHUNK_ELEMENTS = 2048;

    private final AttentionShapes shapes;
    private final Kernels kernels;
    private final RowCounts rowCounts;
    private final int headDim;
    private final MatmulThread thread;
    private final int numbersPerWord; // of keys and of values
    private final int rowsPerBlock; // rows of words in the values of a block
    private final OperandWords keyWords;
    private final OperandWords valueWords;
    private final NativeBuffer accumulatorMemory;
    private final NativeBuffer openMemory;
    private final FloatBuffer accumulators;
    private final FloatBuffer openSums;
    private final PackedPanel[] keys = new PackedPanel[MAX_TILES + 1]; // by number of tiles, which share their memory
    private final PackedPanel[] begun = new PackedPanel[MAX_TILES + 1]; // the same of values, whose product is stored
    private final PackedPanel[] added = new PackedPanel[MAX_TILES + 1]; // the same again, whose product is added
    private final OperandRows queries;
    private final OperandRows weights; // [rows][most tiles × tile]
    private final int[] zeros; // as many words as a block's values
    private final float[] rescaled;
    private final float[] ones;
    private boolean areBegun; // the accumulators: if not, they are 0 whatever they hold

    /** @param maxRows that are multiplied at a time */
    AttentionProducts(AttentionShapes shapes, int maxRows, Kernels kernels) {
        this.shapes = shapes;
        this.kernels = kernels;
        this.rowCounts = shapes.rowCounts();
        this.headDim = shapes.headDim();
        this.thread = new MatmulThread(RowCounts.LARGEST * MAX_TILES * Kernels.TILE_SIZE);
        this.numbersPerWord = Integer.BYTES / shapes.format().bytes();
        this.rowsPerBlock = Kernels.BLOCK_SIZE / numbersPerWord;
        this.keyWords = new OperandWords(shapes.keys(MAX_TILES).packedBytes());
        this.valueWords = new OperandWords(shapes.values(MAX_TILES, true).packedBytes());
        this.accumulatorMemory = new NativeBuffer(4L * (maxRows + RowCounts.LARGEST) * headDim);
        this.openMemory = new NativeBuffer(4L * (maxRows + RowCounts.LARGEST) * headDim);
        this.accumulators = accumulatorMemory.asByteBuffer().asFloatBuffer();
        this.openSums = openMemory.asByteBuffer().asFloatBuffer();
        for (int tiles = 1; tiles <= MAX_TILES; tiles++) {
            keys[tiles] = new PackedPanel(shapes.keys(tiles), keyWords.memory());
            begun[tiles] = new PackedPanel(shapes.values(tiles, false), valueWords.memory());
            added[tiles] = new PackedPanel(shapes.values(tiles, true), valueWords.memory());
        }
        this.queries = new OperandRows(maxRows, headDim, shapes.format(), kernels);
        this.weights = new OperandRows(maxRows, MAX_TILES * Kernels.TILE_SIZE, shapes.format(), kernels);
        this.zeros = new int[rowsPerBlock * headDim];
        this.ones = new float[maxRows];
        Arrays.fill(ones, 1f);
        this.rescaled = new float[Math.max(CHUNK_ELEMENTS, headDim)];
        // Rows that are rounded up to must not be left to chance: garbage can be slow to add to.
        accumulators.put(0, new float[(maxRows + RowCounts.LARGEST) * headDim]);
    }

    /** Sets the queries of the products to come, [rows][head dim] of numbers in the products' format. */
    void putQueries(float[] source, int numRows) {
        queries.put(0, numRows, source);
    }

    /** Sets the keys of one of the tiles of the next product; of blocks that are not found, scores are left to chance. */
    void putKeys(int tile, KvTiles tiles) {
        int blockWords = rowsPerBlock * headDim;
        for (int b = 0; b < tiles.numBlocks(); b++) {
            int at = (tile * KvTiles.BLOCKS_PER_TILE + b) * blockWords;
            tiles.copyKeys(tiles.keyOffsets[b], keyWords, at, blockWords);
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
        thread.multiply(queries.buffer(), firstRow, candidate, keys[numTiles]);
    }

    /**
     * Sets rows' weights of some of the tiles of the next product of values, numbers in the products' format, [rows][tiles ×
     * tile size] from the front of an array. {@link #sendWeights} must follow.
     */
    void putWeights(int firstTile, int numTiles, int firstRow, int numRows, float[] source) {
        int width = numTiles * Kernels.TILE_SIZE;
        if (numTiles == MAX_TILES) {
            weights.put(firstRow, numRows, source);
            return;
        }
        for (int r = 0; r < numRows; r++) {
            weights.hold(firstRow + r, firstTile * Kernels.TILE_SIZE, source, r * width, width);
        }
    }

    /** Sets rows' weights of a tile to 0. */
    void clearWeights(int tile, int firstRow, int numRows) {
        for (int row = firstRow; row < firstRow + numRows; row++) {
            weights.holdZeros(row, tile * Kernels.TILE_SIZE, Kernels.TILE_SIZE);
        }
    }

    /** Says that the rows' weights have been set. */
    void sendWeights(int firstRow, int numRows) {
        weights.send(firstRow, numRows);
    }

    /** Copies a row's weights to the front of an array, [most tiles × tile size]. */
    void readWeights(int row, float[] target) {
        weights.read(row, target);
    }

    /** Sets the values of one of the tiles of the next product, 0 from the slot on up to which the tile was found. */
    void putValues(int tile, int numTiles, KvTiles tiles) {
        for (int b = 0; b < KvTiles.BLOCKS_PER_TILE; b++) {
            int first = (tile * KvTiles.BLOCKS_PER_TILE + b) * rowsPerBlock;
            int slots = Math.max(0, Math.min(Kernels.BLOCK_SIZE, tiles.numSlots() - b * Kernels.BLOCK_SIZE));
            int numRows = (slots + numbersPerWord - 1) / numbersPerWord;
            if (numRows < rowsPerBlock) {
                putZeros(first, numTiles);
            }
            if (numRows > 0) {
                putValueRows(first, numRows, numTiles, tiles, tiles.valueOffsets[b]);
            }
            if (slots % numbersPerWord != 0) {
                clearSecond(first + numRows - 1, numTiles);
            }
        }
    }

    /** Rows of words in the library's order: some columns of all rows of the tiles, then the next columns. */
    private void putValueRows(int firstRow, int numRows, int numTiles, KvTiles tiles, int from) {
        int width = shapes.valueBlockWidth();
        if (width == headDim) {
            tiles.copyValues(from, valueWords, firstRow * width, numRows * width);
            return;
        }
        for (int row = 0; row < numRows; row++) {
            int to = (firstRow + row) * width;
            for (int d = 0; d < headDim; d += width, to += stride(numTiles)) {
                tiles.copyValues(from + row * headDim + d, valueWords, to, width);
            }
        }
    }

    /** A block's rows. */
    private void putZeros(int firstRow, int numTiles) {
        int width = shapes.valueBlockWidth();
        for (int d = 0, to = firstRow * width; d < headDim; d += width, to += stride(numTiles)) {
            valueWords.ints().put(to, zeros, 0, rowsPerBlock * width);
        }
    }

    /** Of two numbers in a word. */
    private void clearSecond(int row, int numTiles) {
        int width = shapes.valueBlockWidth();
        for (int d = 0; d < headDim; d++) {
            int at = d / width * stride(numTiles) + row * width + d % width;
            valueWords.ints().put(at, valueWords.ints().get(at) & 0xffff);
        }
    }

    /** Words from some columns of a row to the next ones. */
    private int stride(int numTiles) {
        return numTiles * KvTiles.BLOCKS_PER_TILE * rowsPerBlock * shapes.valueBlockWidth();
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
        thread.multiply(weights.buffer(), firstRow, 0, candidate, panel, target, 4L * firstRow * headDim);
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
        keyWords.close();
        valueWords.close();
        accumulatorMemory.close();
        openMemory.close();
        queries.close();
        weights.close();
    }
}
