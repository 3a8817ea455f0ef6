package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.millrace.backend.KvCacheDtype;
import io.millrace.kernels.Kernels;
import io.millrace.model.ModelDirectory;
import io.millrace.model.ModelSpec;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Where blocks lie. */
class KvPoolTest {
    private static final ModelSpec SPEC = ModelDirectory.open(Path.of("src/test/resources/golden/models/llama"))
            .spec();

    private static final int HEADER_BYTES = 16; // of an array, which begins with a page

    @ParameterizedTest
    @CsvSource({"BFLOAT16, AUTO, 2, 4", "FLOAT32, AUTO, 4, 4", "FLOAT32, INT8, 1, 1"})
    void blocksOfAHeadFollowEachOtherFromAPageOn(
            NumberFormat format, KvCacheDtype dtype, int numberBytes, int elementBytes) {
        KvPool pool = new KvPool(SPEC, format, dtype, 1 << 20);
        int keyElements = SPEC.headDim() * Kernels.BLOCK_SIZE * numberBytes / elementBytes;
        assertEquals(0, (HEADER_BYTES + pool.keyOffset(0, 0) * elementBytes) % 4096);
        int next = pool.keyOffset(0, 0);
        for (int head = 0; head < SPEC.numKvHeads(); head++) {
            for (int block = 0; block < pool.numBlocks(); block++) {
                assertEquals(next, pool.keyOffset(block, head));
                assertEquals(next + keyElements, pool.valueOffset(block, head));
                next += 2 * keyElements;
            }
        }
    }

    @Test
    void theLastBlockEndsWithTheArray() {
        KvPool half = new KvPool(SPEC, NumberFormat.BFLOAT16, KvCacheDtype.AUTO, 1 << 20);
        assertEquals(half.keyOffset(half.numBlocks(), SPEC.numKvHeads() - 1), half.pairs(0).length);
        KvPool wide = new KvPool(SPEC, NumberFormat.FLOAT32, KvCacheDtype.AUTO, 1 << 20);
        assertEquals(wide.keyOffset(wide.numBlocks(), SPEC.numKvHeads() - 1), wide.floats(0).length);
    }
}
