package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.millrace.backend.Dtype;
import io.millrace.backend.KvCacheDtype;
import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import io.millrace.backend.KvTransfer;
import io.millrace.backend.StepHandle;
import io.millrace.backend.cpu.StepDriver.Part;
import io.millrace.backend.cpu.StepDriver.Seq;
import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.ScalarKernels;
import io.millrace.model.ModelDirectory;
import io.millrace.model.ModelSpec;
import java.nio.file.Path;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class CpuKvTransferTest {
    private static final ModelDirectory MODEL = ModelDirectory.open(Path.of("src/test/resources/golden/models/llama"));
    private static final ModelSpec SPEC = MODEL.spec();

    private static KvPool randomPool(NumberFormat format, Random random) {
        return randomPool(format, KvCacheDtype.AUTO, random);
    }

    private static KvPool randomPool(NumberFormat format, KvCacheDtype dtype, Random random) {
        KvPool pool = new KvPool(SPEC, format, dtype, 1 << 20);
        KvLayout layout = pool.layout();
        float[] unit = new float[2 * 16 * layout.headDim()];
        for (int layer = 0; layer < layout.numLayers(); layer++) {
            for (int block = 0; block < pool.numBlocks(); block++) {
                for (int head = 0; head < layout.numKvHeads(); head++) {
                    for (int i = 0; i < unit.length; i++) {
                        unit[i] = (float) random.nextGaussian();
                    }
                    pool.writeUnit(layer, block, head, unit);
                }
            }
        }
        return pool;
    }

    private static byte[] export(KvTransfer kv, int[] blocks, KvFormat format) {
        byte[] bytes = new byte[Math.toIntExact(kv.layout().bytes(blocks.length, format))];
        kv.exportKv(blocks, blocks.length, format, 0, kv.layout().numUnits(blocks.length), bytes, 0);
        return bytes;
    }

    /** Run by run of units of random length, at odd offsets, as pieces are. */
    private static void move(KvTransfer kv, int[] from, int[] to, KvFormat format, Random random) {
        int numUnits = kv.layout().numUnits(from.length);
        int unitBytes = kv.layout().unitBytes(format);
        for (int unit = 0; unit < numUnits; ) {
            int count = Math.min(numUnits - unit, 1 + random.nextInt(9));
            int offset = random.nextInt(100);
            byte[] piece = new byte[offset + count * unitBytes];
            kv.exportKv(from, from.length, format, unit, count, piece, offset);
            kv.importKv(to, to.length, format, unit, count, piece, offset);
            unit += count;
        }
    }

    @ParameterizedTest
    @EnumSource
    void bitsAsComputedComeBack(NumberFormat format) {
        Random random = new Random(1);
        KvPool pool = randomPool(format, random);
        CpuKvTransfer kv = new CpuKvTransfer(pool, () -> {});
        int[] from = {3, 8, 2};
        int[] to = {20, 7, 9};
        int[] others = IntStream.range(0, pool.numBlocks())
                .filter(block -> IntStream.of(to).noneMatch(b -> b == block))
                .toArray();
        byte[] before = export(kv, others, KvFormat.AS_COMPUTED);
        move(kv, from, to, KvFormat.AS_COMPUTED, random);
        assertArrayEquals(export(kv, from, KvFormat.AS_COMPUTED), export(kv, to, KvFormat.AS_COMPUTED));
        assertArrayEquals(before, export(kv, others, KvFormat.AS_COMPUTED));
        kv.requantize(from, 3, KvFormat.AS_COMPUTED);
        assertArrayEquals(before, export(kv, others, KvFormat.AS_COMPUTED));
    }

    /**
     * The bytes are part of the format of stored pieces (a change needs a new kernels version): little-endian, float32 keys
     * [d][slot] and values [slot][d], bfloat16 in the pairs that the kernels read.
     */
    @ParameterizedTest
    @EnumSource
    void unitsHaveTheirLayout(NumberFormat format) {
        KvPool pool = new KvPool(SPEC, format, KvCacheDtype.AUTO, 1 << 20);
        int headDim = SPEC.headDim();
        float[] source = new float[2 * headDim];
        source[5] = 1.5f;
        source[headDim + 6] = -2f;
        int slot = 16 * 4 + 9;
        if (pool.isPaired()) {
            pool.writeKey(1, slot, 1, source, 0);
            pool.writeValue(1, slot, 1, source, headDim, new ScalarKernels());
        } else {
            pool.write(1, slot, 1, source, 0, headDim);
        }
        CpuKvTransfer kv = new CpuKvTransfer(pool, () -> {});
        byte[] bytes = export(kv, new int[] {2, 4}, KvFormat.AS_COMPUTED);
        int size = format.bytes();
        int unit = ((1 * 2 + 1) * SPEC.numKvHeads() + 1) * kv.layout().unitBytes(KvFormat.AS_COMPUTED);
        boolean isHalf = format == NumberFormat.BFLOAT16;
        int key = unit + (isHalf ? 4 * (5 / 2 * 16 + 9) + 2 : 4 * (5 * 16 + 9));
        int pair = Bfloat16.valuePair(9, 6, headDim);
        int values = unit + 16 * headDim * size;
        int value = values + (isHalf ? 4 * pair + 2 * (9 % 2) : 4 * (9 * headDim + 6));
        byte[] expected = new byte[bytes.length];
        expected[key + size - 2] = (byte) 0xc0;
        expected[key + size - 1] = 0x3f;
        expected[value + size - 1] = (byte) 0xc0;
        assertArrayEquals(expected, bytes);
    }

    @ParameterizedTest
    @CsvSource({"BFLOAT16,INT8", "BFLOAT16,INT4", "FLOAT32,INT8", "FLOAT32,INT4"})
    void loadedAndRequantizedBlocksAreEqual(NumberFormat number, KvFormat format) {
        Random random = new Random(2);
        CpuKvTransfer kv = new CpuKvTransfer(randomPool(number, random), () -> {});
        int[] computed = {3, 8, 2};
        int[] loaded = {20, 7, 9};
        int[] again = {21, 10, 11};
        move(kv, computed, loaded, format, random);
        kv.requantize(computed, 3, format);
        byte[] expected = export(kv, computed, KvFormat.AS_COMPUTED);
        assertArrayEquals(expected, export(kv, loaded, KvFormat.AS_COMPUTED));
        kv.requantize(computed, 3, format);
        assertArrayEquals(expected, export(kv, computed, KvFormat.AS_COMPUTED));
        move(kv, computed, again, format, random);
        assertArrayEquals(expected, export(kv, again, KvFormat.AS_COMPUTED));
    }

    @ParameterizedTest
    @EnumSource(names = {"FLOAT32", "BFLOAT16"})
    void aSequenceGoesOnOverImportedBlocks(Dtype dtype) {
        assumeTrue(dtype == Dtype.FLOAT32 || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        int[] tokens = new Random(3).ints(75, 0, SPEC.vocabSize()).toArray();
        try (StepDriver driver = new StepDriver(MODEL, dtype, 2)) {
            Seq computed = new Seq(tokens);
            driver.step(new Part(computed, 64, 0));
            Seq loaded = new Seq(tokens);
            driver.allocate(loaded, 64);
            move(driver.backend().kvTransfer(), computed.table, loaded.table, KvFormat.AS_COMPUTED, new Random(4));
            loaded.numComputed = 64;
            driver.step(new Part(computed, 11, 11));
            driver.step(new Part(loaded, 11, 11));
            assertArrayEquals(driver.kvBits(computed, SPEC), driver.kvBits(loaded, SPEC));
            for (int i = 0; i < 11; i++) {
                assertArrayEquals(computed.logits.get(i), loaded.logits.get(i));
            }
        }
    }

    @ParameterizedTest
    @EnumSource(names = "FLOAT32")
    void movesNothingWhileAStepIsInFlight(Dtype dtype) {
        StepDriver driver = new StepDriver(MODEL, dtype, 2);
        KvTransfer kv = driver.backend().kvTransfer();
        Seq sequence = new Seq(1, 2, 3);
        StepHandle step = driver.backend().submit(driver.build(new Part(sequence, 3, 1)));
        assertThrows(IllegalStateException.class, () -> export(kv, new int[] {0}, KvFormat.AS_COMPUTED));
        step.await();
        assertEquals(kv.layout().bytes(1, KvFormat.INT8), export(kv, new int[] {0}, KvFormat.INT8).length);
        driver.close();
        assertThrows(IllegalStateException.class, () -> export(kv, new int[] {0}, KvFormat.AS_COMPUTED));
    }

    /** 8 bits in memory: as it stands and through floats the same bits come back, and rounding to 8 bits again does nothing. */
    @ParameterizedTest
    @EnumSource
    void eightBitBlocksComeBack(NumberFormat number) {
        Random random = new Random(5);
        KvPool pool = randomPool(number, KvCacheDtype.INT8, random);
        CpuKvTransfer kv = new CpuKvTransfer(pool, () -> {});
        int[] from = {3, 8, 2};
        byte[] expected = export(kv, from, KvFormat.AS_COMPUTED);
        assertEquals(3 * pool.bytesPerBlock(), expected.length);
        for (KvFormat format : new KvFormat[] {KvFormat.AS_COMPUTED, KvFormat.INT8}) {
            int[] to = {20, 7, 9};
            move(kv, from, to, format, random);
            assertArrayEquals(expected, export(kv, to, KvFormat.AS_COMPUTED), format.optionName());
            kv.requantize(to, 3, format);
            assertArrayEquals(expected, export(kv, to, KvFormat.AS_COMPUTED), format.optionName());
            for (int layer = 0; layer < SPEC.numLayers(); layer++) {
                pool.copyBlock(layer, 8, 30);
            }
            int[] copied = {3, 30, 2};
            assertArrayEquals(expected, export(kv, copied, KvFormat.AS_COMPUTED), "copied");
        }
    }
}
