package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.backend.Backend;
import io.millrace.backend.BackendConfig;
import io.millrace.backend.BackendProvider;
import io.millrace.backend.Dtype;
import io.millrace.backend.cpu.StepDriver.Part;
import io.millrace.backend.cpu.StepDriver.Seq;
import io.millrace.engine.EngineConfig;
import io.millrace.engine.FinishReason;
import io.millrace.engine.InferenceEngine;
import io.millrace.engine.Request;
import io.millrace.engine.StepReport;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.kernels.KernelChoice;
import io.millrace.model.ModelDirectory;
import io.millrace.model.RopeSpec;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.SamplingParams;
import io.millrace.sampling.TokenLogprobs;
import io.millrace.tokenizer.ChatMessage;
import io.millrace.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * The demo model's greedy answers to 200 chats, served together by the engine, against those of the reference
 * implementation (float32, one chat at a time). Ids must agree up to the first position whose margin, the top logit less
 * the second, is below the noise: 4 times the largest logit error. That error is measured over all logits of every sixteenth chat,
 * against plain double loops with the reference's rotary frequencies; the margins that the engine reports (as differences
 * of log probabilities) show that these loops stand for the reference.
 *
 * <p>The reference ran a model that had been cast to bfloat16 and back as a whole, rotary frequencies included; the engine
 * keeps those in float32, as a model that is loaded in bfloat16 does.
 */
class DemoModelTest {
    private static final Path DIRECTORY = Path.of("../models/millrace-tiny");
    private static final ObjectMapper MAPPER = new ObjectMapper();
    /** Margins are given to four decimals. */
    private static final double MARGIN_ROUNDING = 5e-5;

    private static ModelDirectory model;
    private static final List<Expected> EXPECTED = new ArrayList<>();
    private static final int MEASURED_CHATS_STRIDE = 16; // five kinds of chats take turns: all are measured
    /** Of the measured chats: [position][vocabulary]. */
    private static final List<double[][]> EXACT_LOGITS = new ArrayList<>();

    private record Expected(String id, int[] promptIds, int[] ids, double[] margins, String text) {
        private int[] promptAndAnswer() {
            int[] tokens = Arrays.copyOf(promptIds, promptIds.length + ids.length);
            System.arraycopy(ids, 0, tokens, promptIds.length, ids.length);
            return tokens;
        }
    }

    /** What the engine answered, and the difference of the two likeliest logits at each position. */
    private static final class Answer {
        private final List<Integer> ids = new ArrayList<>();
        private final List<Double> margins = new ArrayList<>();
        private StepReport.Finished finished;

        private int[] ids() {
            return ids.stream().mapToInt(Integer::intValue).toArray();
        }
    }

    /** The CPU in float32 with rotary frequencies of one's own. */
    private record RopeProvider(RopeSpec rope) implements BackendProvider {
        @Override
        public String name() {
            return "cpu";
        }

        @Override
        public Backend open(BackendConfig config) {
            return CpuBackend.open(
                    config, NumberFormat.FLOAT32, KernelChoice.best().kernels(), rope, LogitsObserver.NONE);
        }
    }

    @BeforeAll
    static void readExpectedAnswersAndComputeExactLogits() throws IOException {
        model = ModelDirectory.open(DIRECTORY);
        EXPECTED.clear();
        try (Tokenizer tokenizer = Tokenizer.open(DIRECTORY).orElseThrow()) {
            for (String line : Files.readAllLines(DIRECTORY.resolve("expected.jsonl"))) {
                JsonNode node = MAPPER.readTree(line);
                List<ChatMessage> messages = new ArrayList<>();
                for (JsonNode message : node.get("messages")) {
                    messages.add(new ChatMessage(
                            message.get("role").asText(), message.get("content").asText()));
                }
                String id = node.get("request_id").asText();
                int[] promptIds = tokenizer.encodeChat(messages);
                assertArrayEquals(ints(node.get("prompt_token_ids")), promptIds, () -> "prompt ids of " + id);
                EXPECTED.add(new Expected(
                        id,
                        promptIds,
                        ints(node.get("greedy_token_ids")),
                        MAPPER.convertValue(node.get("greedy_margins"), double[].class),
                        node.get("greedy_text").asText()));
            }
        }
        assertEquals(200, EXPECTED.size());
        ReferenceDecoder reference = new ReferenceDecoder(
                model, GoldenLogitsTest.roundedToBfloat16(model.spec().rope()));
        EXACT_LOGITS.clear();
        for (int c = 0; c < EXPECTED.size(); c += MEASURED_CHATS_STRIDE) {
            EXACT_LOGITS.add(reference.logits(EXPECTED.get(c).promptAndAnswer()));
        }
    }

    /** With the reference's rotary frequencies nothing but the order of sums differs, and hardly a position is noise. */
    @Test
    void float32AgreesUpToTheNoiseWithTheReferencesFrequencies() {
        RopeSpec rope = GoldenLogitsTest.roundedToBfloat16(model.spec().rope());
        compareFloat32(rope, 1e-4, 0.99);
    }

    /** With the frequencies that the engine really uses, the difference of frequencies is part of the logit error. */
    @Test
    void float32AgreesUpToTheNoise() {
        compareFloat32(model.spec().rope(), 5e-2, 0.95);
    }

    private static void compareFloat32(RopeSpec rope, double maxError, double minComparedShare) {
        double error = largestFloat32Error(rope);
        double noise = 4 * error;
        assertTrue(error <= maxError, "largest logit error " + error + ", at most " + maxError + " is expected");
        Map<String, Answer> answers = serve(Dtype.FLOAT32, new RopeProvider(rope));
        int numPositions = 0;
        int numCompared = 0;
        double worstMargin = 0;
        for (Expected expected : EXPECTED) {
            Answer answer = answers.get(expected.id);
            int parting = Arrays.mismatch(expected.ids, answer.ids());
            int numAgreeing = parting < 0 ? expected.ids.length : parting;
            assertTrue(
                    parting < 0 || parting < expected.ids.length && expected.margins[parting] < noise,
                    () -> expected.id + " parts at output position " + parting + ", with a noise of " + noise
                            + " and margins of " + Arrays.toString(expected.margins));
            for (int i = 0; i < numAgreeing; i++) {
                worstMargin = Math.max(worstMargin, Math.abs(expected.margins[i] - answer.margins.get(i)));
            }
            numPositions += expected.ids.length;
            numCompared += numAgreeing;
        }
        System.out.printf(
                "millrace-tiny float32: %d of 200 answers equal, %d of %d positions compared, largest logit error %.1e,"
                        + " largest difference of margins %.1e%n",
                numEqual(answers), numCompared, numPositions, error, worstMargin);
        assertTrue(
                worstMargin <= noise + MARGIN_ROUNDING,
                "margins differ by " + worstMargin + " from the reference's, the noise is " + noise);
        assertTrue(
                numCompared >= minComparedShare * numPositions,
                numCompared + " of " + numPositions + " positions compared with a noise of " + noise);
    }

    @Test
    void bfloat16GivesTheSameAnswersToNearlyAll() {
        assumeTrue(OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        Map<String, Answer> answers = serve(Dtype.BFLOAT16, new CpuBackendProvider());
        int numEqual = numEqual(answers);
        System.out.printf("millrace-tiny bfloat16: %d of 200 answers equal%n", numEqual);
        for (Expected expected : EXPECTED) {
            Answer answer = answers.get(expected.id);
            int parting = Arrays.mismatch(expected.ids, answer.ids());
            if (parting >= 0) {
                System.out.printf(
                        "  %s parts at output position %d of %d, where the reference's margin is %.4f%n",
                        expected.id, parting, expected.ids.length, expected.margins[parting]);
            }
        }
        assertTrue(numEqual >= 196, numEqual + " of 200 answers equal the reference's, at least 98 % must");
    }

    private static int numEqual(Map<String, Answer> answers) {
        int numEqual = 0;
        for (Expected expected : EXPECTED) {
            Answer answer = answers.get(expected.id);
            if (Arrays.equals(expected.ids, answer.ids())) {
                assertEquals(FinishReason.STOP, answer.finished.reason(), expected.id);
                assertEquals(expected.text, answer.finished.text(), expected.id);
                numEqual++;
            }
        }
        return numEqual;
    }

    /** All prompts in one engine at once, fewer sequences and tokens a step than there are. */
    private static Map<String, Answer> serve(Dtype dtype, BackendProvider provider) {
        EngineConfig config = new EngineConfig(
                DIRECTORY.toString(), "cpu", dtype, 0, 64, 512, 32L << 20, true, 16, 0, LogprobsMode.RAW_LOGPROBS);
        SamplingParams greedy = SamplingParams.builder()
                .temperature(0)
                .maxTokens(256)
                .numLogprobs(2)
                .build();
        Map<String, Answer> answers = new LinkedHashMap<>();
        try (InferenceEngine engine = InferenceEngine.open(config, provider)) {
            for (Expected expected : EXPECTED) {
                answers.put(expected.id, new Answer());
                engine.submit(new Request(expected.id, expected.promptIds, greedy));
            }
            for (StepReport report = engine.step(); report != null; report = engine.step()) {
                report.failures().forEach(failure -> fail(failure.toString()));
                for (SampleDelta delta : report.deltas()) {
                    Answer answer = answers.get(delta.requestId());
                    for (int i = 0; i < delta.tokenIds().length; i++) {
                        TokenLogprobs logprobs = delta.logprobs()[i];
                        answer.ids.add(delta.tokenIds()[i]);
                        answer.margins.add((double) logprobs.topLogprobs()[0] - logprobs.topLogprobs()[1]);
                    }
                    answer.finished = delta.finished();
                }
            }
        }
        answers.forEach((id, answer) -> assertTrue(answer.finished != null, () -> id + " was not answered"));
        return answers;
    }

    /** Largest difference to plain double loops over all logits of every sixteenth chat, prompt and expected answer. */
    private static double largestFloat32Error(RopeSpec rope) {
        double error = 0;
        try (StepDriver driver =
                new StepDriver(model, Dtype.FLOAT32, 2, KernelChoice.best().kernels(), rope)) {
            for (int c = 0; c < EXPECTED.size(); c += MEASURED_CHATS_STRIDE) {
                int[] tokens = EXPECTED.get(c).promptAndAnswer();
                double[][] exact = EXACT_LOGITS.get(c / MEASURED_CHATS_STRIDE);
                Seq sequence = new Seq(tokens);
                driver.step(new Part(sequence, tokens.length, tokens.length));
                for (int t = 0; t < tokens.length; t++) {
                    float[] actual = sequence.logits.get(t);
                    for (int id = 0; id < actual.length; id++) {
                        error = Math.max(error, Math.abs(actual[id] - exact[t][id]));
                    }
                }
            }
        }
        return error;
    }

    private static int[] ints(JsonNode array) {
        return MAPPER.convertValue(array, int[].class);
    }
}
