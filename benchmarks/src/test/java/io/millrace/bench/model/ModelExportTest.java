package io.millrace.bench.model;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.engine.InvalidConfigException;
import io.millrace.model.ModelDirectory;
import io.millrace.model.ModelSpec.Weight;
import io.millrace.model.StorageType;
import io.millrace.model.Tensor;
import io.millrace.plan.ConfigShape;
import io.millrace.plan.ModelShape;
import io.millrace.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ModelExportTest {
    private static final ModelShape TIED = new ModelShape("tied", 320, 64, 2, 4, 2, 16, 96, true, 128, 512);
    private static final ModelShape UNTIED = new ModelShape("untied", 320, 64, 2, 4, 2, 24, 96, false, 128, 512);
    private static final ModelShape QWEN2 =
            new ModelShape("qwen2", 320, 64, 1, 4, 2, 16, 96, true, 128 + 64 + 2 * 32, 512);

    @TempDir
    Path directory;

    @Test
    void theModelDirectoryReadsWhatWasWritten() throws IOException {
        for (ModelShape shape : new ModelShape[] {TIED, UNTIED}) {
            Path out = directory.resolve(shape.name());
            ModelExport.write(shape, out, 7);
            ModelDirectory model = ModelDirectory.open(out);
            assertEquals(shape, ModelShape.of(shape.name(), model.spec()));
            assertEquals(shape, ConfigShape.read(out));
            long numParameters = model.tensors().names().stream()
                    .mapToLong(name -> model.tensors().tensor(name).numElements())
                    .sum();
            assertEquals(shape.numParameters(), numParameters);
        }
    }

    @Test
    void matricesAreSmallNormalsAndNormsAreOne() throws IOException {
        ModelExport.write(TIED, directory, 7);
        ModelDirectory model = ModelDirectory.open(directory);
        Tensor embedding = model.weight(Weight.EMBEDDING, 0);
        assertEquals(StorageType.BF16, embedding.storageType());
        float[] values = new float[(int) embedding.numElements()];
        embedding.readFloats(0, values, 0, values.length);
        double sum = 0;
        double squares = 0;
        for (float value : values) {
            sum += value;
            squares += value * (double) value;
        }
        assertEquals(0, sum / values.length, 0.001);
        assertEquals(0.02, Math.sqrt(squares / values.length), 0.001);
        float[] norm = new float[64];
        model.weight(Weight.ATTENTION_NORM, 1).readFloats(0, norm, 0, 64);
        for (float value : norm) {
            assertEquals(1f, value);
        }
    }

    @Test
    void equalSeedsGiveEqualModelsAndOthersDoNot() throws IOException {
        ModelExport.write(TIED, directory.resolve("a"), 7);
        ModelExport.write(TIED, directory.resolve("b"), 7);
        ModelExport.write(TIED, directory.resolve("c"), 8);
        String fingerprint = ModelDirectory.open(directory.resolve("a")).fingerprint();
        assertEquals(fingerprint, ModelDirectory.open(directory.resolve("b")).fingerprint());
        assertFalse(
                fingerprint.equals(ModelDirectory.open(directory.resolve("c")).fingerprint()));
    }

    @Test
    void theTokenizerTakesEveryByteAndGivesItBack() throws IOException {
        ModelExport.write(TIED, directory, 7);
        StringBuilder text = new StringBuilder("naïve 模型 \ud83d\ude00\t\n");
        for (char c = 0; c < 0x180; c++) {
            text.append(c);
        }
        try (Tokenizer tokenizer = Tokenizer.open(directory).orElseThrow()) {
            assertEquals(320, tokenizer.vocabSize());
            int[] ids = tokenizer.encode(text.toString(), true, false);
            assertEquals(text.toString().getBytes(java.nio.charset.StandardCharsets.UTF_8).length, ids.length);
            assertEquals(text.toString(), tokenizer.decode(ids, false));
            assertArrayEquals(new int[] {3 + (byte) 'a'}, tokenizer.encode("a", true, false));
        }
    }

    @Test
    void qwen2HasItsNamesAndBiases() throws IOException {
        ModelExport.write(QWEN2, directory, 7);
        assertTrue(Files.readString(directory.resolve("config.json")).contains("\"Qwen2ForCausalLM\""));
        assertEquals(QWEN2.numParameters(), ConfigShape.read(directory).numParameters());
    }

    @Test
    void refusesWhatItCannotWrite() {
        ModelShape odd = new ModelShape("odd", 320, 64, 1, 4, 2, 16, 96, true, 129, 512);
        String message = assertThrows(InvalidConfigException.class, () -> ModelExport.write(odd, directory, 7))
                .getMessage();
        assertTrue(message.contains("129 values"), message);
        ModelShape small = new ModelShape("small", 200, 64, 1, 4, 2, 16, 96, true, 128, 512);
        assertThrows(InvalidConfigException.class, () -> ModelExport.write(small, directory, 7));
    }

    @Test
    void randomModelsAreMadeOnceAndKept() throws IOException {
        BenchModel first = BenchModel.random(TIED, directory);
        Path weights = first.directory().resolve("model.safetensors");
        FileTime written = Files.getLastModifiedTime(weights);
        assertEquals(first, BenchModel.random(TIED, directory));
        assertEquals(written, Files.getLastModifiedTime(weights));
        assertTrue(first.isRandom());
        BenchModel asDirectory = BenchModel.resolve(first.directory().toString(), directory.resolve("unused"));
        assertFalse(asDirectory.isRandom());
        BenchModel asConfig =
                BenchModel.resolve(first.directory().resolve("config.json").toString(), directory.resolve("other"));
        assertTrue(asConfig.isRandom());
        assertEquals(TIED.numParameters(), asConfig.shape().numParameters());
    }
}
