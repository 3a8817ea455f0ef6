package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.Dtype;
import io.millrace.backend.cpu.StepDriver.Part;
import io.millrace.backend.cpu.StepDriver.Seq;
import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.KernelChoice;
import io.millrace.model.GoldenTensors;
import io.millrace.model.ModelDirectory;
import io.millrace.model.RopeSpec;
import java.nio.file.Path;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Logits and greedy ids against the reference implementation's. Errors are in units of the logits' deviation. */
class GoldenLogitsTest {
    private static final Path MODELS = Path.of("src/test/resources/golden/models");
    private static final double MIN_COMPARED_SHARE = 0.9;

    @ParameterizedTest
    @ValueSource(strings = {"llama", "llama-mha", "llama31-rope"})
    void float32(String name) {
        compare(name, Dtype.FLOAT32, 1e-3);
    }

    private static void compare(String name, Dtype dtype, double tolerance) {
        GoldenTensors golden = new GoldenTensors(MODELS.resolve(name).resolve("golden.safetensors"));
        ModelDirectory model = ModelDirectory.open(MODELS.resolve(name));
        int numPositions = 0;
        int numCompared = 0;
        double worst = 0;
        try (StepDriver driver = new StepDriver(
                model,
                dtype,
                2,
                KernelChoice.best().kernels(),
                roundedToBfloat16(model.spec().rope()))) {
            for (int c = 0; golden.contains("case" + c + ".input_ids"); c++) {
                int[] prompt = golden.ints("case" + c + ".input_ids");
                float[] expected = golden.floats("case" + c + ".logits");
                int vocab = model.spec().vocabSize();
                Seq sequence = new Seq(prompt);
                int next = driver.step(new Part(sequence, prompt.length, expected.length / vocab))[0];
                double error = 0;
                double deviation = deviation(expected);
                for (int i = 0; i < expected.length; i++) {
                    float actual = sequence.logits.get(i / vocab)[i % vocab];
                    error = Math.max(error, Math.abs(actual - expected[i]));
                }
                worst = Math.max(worst, error / deviation);
                int[] ids = golden.ints("case" + c + ".greedy_ids");
                float[] margins = golden.floats("case" + c + ".greedy_margin");
                numPositions += ids.length;
                for (int i = 0; i < ids.length && margins[i] > 4 * error; i++) {
                    assertEquals(ids[i], next, name + " case " + c + " greedy position " + i);
                    numCompared++;
                    sequence.append(next);
                    next = driver.step(new Part(sequence, 1, 1))[0];
                }
            }
        }
        System.out.printf(
                "%s %s: largest error %.2e deviations, %d of %d greedy ids compared%n",
                name, dtype.optionName(), worst, numCompared, numPositions);
        assertTrue(worst <= tolerance, name + ": largest error " + worst + " deviations, allowed " + tolerance);
        assertTrue(
                numCompared >= MIN_COMPARED_SHARE * numPositions,
                name + ": only " + numCompared + " of " + numPositions + " greedy positions are above the noise");
    }

    /** The fixtures come from a model that was cast to bfloat16 and back as a whole, rotary frequencies included. */
    static RopeSpec roundedToBfloat16(RopeSpec rope) {
        float[] rounded = rope.inverseFrequencies().clone();
        for (int i = 0; i < rounded.length; i++) {
            rounded[i] = Bfloat16.widen(Bfloat16.round(rounded[i]));
        }
        return new RopeSpec(rope.rotaryDim(), rounded);
    }

    private static double deviation(float[] values) {
        double sum = 0;
        double squares = 0;
        for (float value : values) {
            sum += value;
            squares += (double) value * value;
        }
        double mean = sum / values.length;
        return Math.sqrt(squares / values.length - mean * mean);
    }
}
