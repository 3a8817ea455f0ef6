package io.millrace.model;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.model.ModelSpec.Weight;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ModelDirectoryTest {
    private static final Path GOLDEN = Path.of("src/test/resources/golden/models");

    @Test
    void readsOlderConfigKeysAndTiedEmbeddings() {
        ModelDirectory model = ModelDirectory.open(GOLDEN.resolve("llama"));
        ModelSpec spec = model.spec();
        assertEquals("llama", spec.family());
        assertEquals(320, spec.vocabSize());
        assertEquals(64, spec.hiddenSize());
        assertEquals(3, spec.numLayers());
        assertEquals(4, spec.numQueryHeads());
        assertEquals(2, spec.numKvHeads());
        assertEquals(2, spec.numQueryHeadsPerKvHead());
        assertEquals(16, spec.headDim());
        assertEquals(160, spec.intermediateSize());
        assertEquals(1e-6f, spec.rmsNormEps());
        assertEquals(4096, spec.maxPositionEmbeddings());
        assertEquals(0, spec.bosTokenId());
        assertEquals(List.of(1), spec.eosTokenIds());
        assertTrue(spec.tiedEmbeddings());
        assertFalse(model.hasTokenizer());
        assertEquals(GenerationDefaults.NONE, model.generationDefaults());
        assertEquals(StorageType.BF16, model.declaredType());
        Tensor head = model.weight(Weight.LM_HEAD, 0);
        assertEquals("model.embed_tokens.weight", head.name());
        assertArrayEquals(new long[] {320, 64}, head.shape());
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama", "llama-mha", "llama31-rope"})
    void servesEveryWeightOfTheGoldenModels(String name) {
        ModelDirectory model = ModelDirectory.open(GOLDEN.resolve(name));
        for (int layer = 0; layer < model.spec().numLayers(); layer++) {
            Tensor gate = model.weight(Weight.GATE, layer);
            float[] floats = new float[160 * 64];
            short[] bits = new short[floats.length];
            gate.readFloats(0, floats, 0, floats.length);
            gate.readBfloat16(0, bits, 0, bits.length);
            double sumOfSquares = 0;
            for (int i = 0; i < floats.length; i++) {
                assertEquals(floats[i], FloatFormats.fromBfloat16(bits[i]));
                sumOfSquares += floats[i] * floats[i];
            }
            assertTrue(sumOfSquares > 0, "weights are not all zero");
        }
    }

    @Test
    void readsTheDemoModel() {
        ModelDirectory model = ModelDirectory.open(Path.of("../models/millrace-tiny"));
        assertEquals(List.of(2, 0), model.spec().eosTokenIds());
        assertEquals(1.0f, model.generationDefaults().temperature());
        assertNull(model.generationDefaults().topP());
        assertTrue(model.hasTokenizer());
        assertEquals(64, model.fingerprint().length());
        assertSame(model.fingerprint(), model.fingerprint());
    }
}
