package io.millrace.sampling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.kernels.LogitKernels;
import io.millrace.model.GoldenTensors;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Distributions and draws against transformers' logits processors. */
class SamplerGoldenTest {
    private static final Path DIRECTORY = Path.of("src/test/resources/golden");
    private static final int NUM_DRAWS = 20_000;
    /** Weights below e^-87 of the greatest are 0 in the sampler; the reference keeps them down to 1e-308. */
    private static final double NEGLIGIBLE = 1e-30;

    private static final JsonNode CASES = cases();
    private static final GoldenTensors TENSORS = new GoldenTensors(DIRECTORY.resolve("sampling.safetensors"));

    private static JsonNode cases() {
        try {
            return new ObjectMapper()
                    .readTree(DIRECTORY.resolve("sampling.json").toFile());
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    static IntStream indices() {
        return IntStream.range(0, CASES.size());
    }

    @ParameterizedTest
    @MethodSource("indices")
    void distributionIsTheReferences(int index) {
        double[] expected = TENSORS.doubles("case" + index + ".probs");
        double[] actual = new double[expected.length];
        RowSampling row = row(index, 0, 0);
        new Sampler(expected.length, LogprobsMode.RAW_LOGPROBS)
                .distribution(TENSORS.floats("case" + index + ".logits"), 0, row, actual);
        for (int id = 0; id < expected.length; id++) {
            assertEquals(expected[id] > NEGLIGIBLE, actual[id] > NEGLIGIBLE, "support at id " + id);
            assertEquals(expected[id], actual[id], 1e-6 * expected[id] + 1e-9, "id " + id);
        }
    }

    @ParameterizedTest
    @MethodSource("indices")
    void drawnTokensFollowTheDistribution(int index) {
        double[] probs = TENSORS.doubles("case" + index + ".probs");
        float[] logits = TENSORS.floats("case" + index + ".logits");
        Sampler sampler = new Sampler(probs.length, LogprobsMode.RAW_LOGPROBS);
        Sampler plain = new Sampler(probs.length, LogprobsMode.RAW_LOGPROBS, LogitKernels.scalar());
        int[] counts = new int[probs.length];
        for (int i = 0; i < NUM_DRAWS; i++) {
            RowSampling row = row(index, i % 8, i / 8);
            int id = sampler.draw(logits.clone(), 0, row);
            if (i < 500) {
                assertEquals(id, plain.draw(logits.clone(), 0, row), "twin at draw " + i);
            }
            assertTrue(probs[id] > 0, "id " + id + " is outside of the support");
            counts[id]++;
        }
        assertChiSquare(probs, counts);
    }

    /** Pools ids with less than 5 expected draws; the limit is 5 standard deviations above the mean. */
    private static void assertChiSquare(double[] probs, int[] counts) {
        double chiSquare = 0;
        int numClasses = 0;
        double pooledExpected = 0;
        int pooledCount = 0;
        for (int id = 0; id < probs.length; id++) {
            double expected = probs[id] * NUM_DRAWS;
            if (expected < 5) {
                pooledExpected += expected;
                pooledCount += counts[id];
            } else {
                chiSquare += (counts[id] - expected) * (counts[id] - expected) / expected;
                numClasses++;
            }
        }
        if (pooledExpected >= 5) {
            chiSquare += (pooledCount - pooledExpected) * (pooledCount - pooledExpected) / pooledExpected;
            numClasses++;
        } else {
            assertTrue(pooledCount <= pooledExpected + 5 * Math.sqrt(pooledExpected) + 5, "rare ids: " + pooledCount);
        }
        int degrees = Math.max(1, numClasses - 1);
        assertTrue(chiSquare < degrees + 5 * Math.sqrt(2.0 * degrees), chiSquare + " of " + degrees + " degrees");
    }

    private static RowSampling row(int index, int sampleIndex, int outputPosition) {
        JsonNode golden = CASES.get(index);
        JsonNode settings = golden.get("settings");
        Map<Integer, Float> bias = new TreeMap<>();
        settings.path("logit_bias")
                .properties()
                .forEach(entry -> bias.put(
                        Integer.valueOf(entry.getKey()), entry.getValue().floatValue()));
        SamplingParams params = SamplingParams.builder()
                .temperature((float) settings.path("temperature").asDouble(1))
                .topP((float) settings.path("top_p").asDouble(1))
                .topK(settings.path("top_k").asInt(0))
                .minP((float) settings.path("min_p").asDouble(0))
                .repetitionPenalty((float) settings.path("repetition_penalty").asDouble(1))
                .presencePenalty((float) settings.path("presence_penalty").asDouble(0))
                .frequencyPenalty((float) settings.path("frequency_penalty").asDouble(0))
                .logitBias(bias)
                .seed(0x5eed_0000_0000_0000L + index)
                .build();
        int[] prompt = ints(golden.get("prompt_ids"));
        int[] output = ints(golden.get("output_ids"));
        int[] tokens =
                IntStream.concat(IntStream.of(prompt), IntStream.of(output)).toArray();
        int[] allowed = ints(settings.path("allowed"));
        int[] suppressed = allowed.length == 0
                ? new int[0]
                : IntStream.range(0, 320)
                        .filter(id -> IntStream.of(allowed).noneMatch(a -> a == id))
                        .toArray();
        return new RowSampling(params, sampleIndex, outputPosition, tokens, prompt.length, tokens.length, suppressed);
    }

    private static int[] ints(JsonNode list) {
        int[] values = new int[list.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = list.get(i).intValue();
        }
        return values;
    }
}
