package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.millrace.backend.Dtype;
import io.millrace.backend.cpu.StepDriver.Part;
import io.millrace.backend.cpu.StepDriver.Seq;
import io.millrace.model.ModelDirectory;
import java.nio.file.Path;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The backend against plain double loops, with the rotary frequencies that it really uses. */
class ReferenceTest {
    @ParameterizedTest
    @ValueSource(strings = {"llama", "llama-mha", "llama31-rope"})
    void float32LogitsMatchPlainLoops(String name) {
        ModelDirectory model = ModelDirectory.open(Path.of("src/test/resources/golden/models", name));
        int vocab = model.spec().vocabSize();
        int[] tokens = new Random(3).ints(150, 0, vocab).toArray();
        double[][] expected = new ReferenceDecoder(model, model.spec().rope()).logits(tokens);
        try (StepDriver driver = new StepDriver(model, Dtype.FLOAT32, 2)) {
            Seq sequence = new Seq(tokens);
            driver.step(new Part(sequence, 70, 70));
            driver.step(new Part(sequence, 80, 80));
            for (int t = 0; t < tokens.length; t++) {
                for (int id = 0; id < vocab; id++) {
                    assertEquals(expected[t][id], sequence.logits.get(t)[id], 2e-4, "position " + t + " id " + id);
                }
            }
        }
    }
}
