package io.millrace.engine;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.backend.Dtype;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.SamplingParams;
import io.millrace.speculation.SpeculationMethod;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * How much faster the demo model runs with speculation than without: one request at a time and 64 together, extraction as
 * JSON and prompts that quote themselves (earlier questions with their answers come before the last one). Rounds with and
 * without alternate; the median of their ratios counts. Run its main with the test class path in the module's directory;
 * arguments: rounds (7), a method (both).
 */
final class SpeculationBench {
    private static final Path MODEL = Path.of("../models/millrace-tiny");
    private static final Path DRAFT = Path.of("../models/millrace-tiny-draft");
    private static final int NUM_QUOTED = 4;

    private SpeculationBench() {}

    private record Outcome(double tokensPerSecond, int textHash) {}

    public static void main(String[] args) throws IOException {
        int numRounds = args.length > 0 ? Integer.parseInt(args[0]) : 7;
        List<SpeculationMethod> methods = args.length > 1
                ? List.of(SpeculationMethod.valueOf(args[1].toUpperCase(Locale.ROOT)))
                : List.of(SpeculationMethod.NGRAM, SpeculationMethod.DRAFT_MODEL);
        System.out.println("workload, method, at once: tokens/s without -> with, ratio (median of rounds), accepted");
        for (boolean quoting : new boolean[] {false, true}) {
            for (float temperature : new float[] {0, 1}) {
                List<Request> requests = requests(quoting, temperature);
                String workload = (quoting ? "self-quoting" : "extraction") + " at temperature " + temperature;
                for (SpeculationMethod method : methods) {
                    compare(workload, method, 1, requests, numRounds);
                    compare(workload, method, 64, requests, numRounds);
                }
            }
        }
    }

    private static void compare(
            String workload, SpeculationMethod method, int numAtOnce, List<Request> requests, int numRounds) {
        EngineConfig config = new EngineConfig(
                MODEL.toString(),
                "cpu",
                Dtype.AUTO,
                0,
                EngineConfig.DEFAULT_MAX_NUM_SEQS,
                EngineConfig.DEFAULT_MAX_NUM_BATCHED_TOKENS,
                128L << 20,
                true,
                EngineConfig.DEFAULT_BLOCK_SIZE,
                0,
                LogprobsMode.RAW_LOGPROBS);
        SpeculativeConfig speculative =
                SpeculativeConfig.of(method, method == SpeculationMethod.DRAFT_MODEL ? DRAFT.toString() : "");
        try (InferenceEngine plain = InferenceEngine.open(config);
                InferenceEngine fast = InferenceEngine.open(config.withSpeculative(speculative))) {
            double[] ratios = new double[numRounds];
            double[] without = new double[numRounds];
            double[] with = new double[numRounds];
            for (int round = -2; round < numRounds; round++) {
                Outcome slow = run(plain, requests, numAtOnce);
                Outcome quick = run(fast, requests, numAtOnce);
                if (slow.textHash() != quick.textHash()) {
                    throw new IllegalStateException("speculation changed the output");
                }
                if (round >= 0) {
                    without[round] = slow.tokensPerSecond();
                    with[round] = quick.tokensPerSecond();
                    ratios[round] = with[round] / without[round];
                }
            }
            System.out.printf(
                    "%s, %s, %d: %.0f -> %.0f, %.2f, %.0f %% of %d%n",
                    workload,
                    method.optionName(),
                    numAtOnce,
                    median(without),
                    median(with),
                    median(ratios),
                    100 * fast.stats().speculation().acceptanceRate(),
                    fast.stats().speculation().numProposedTokens());
        }
    }

    private static Outcome run(InferenceEngine engine, List<Request> requests, int numAtOnce) {
        int numTokens = 0;
        int hash = 0;
        long start = System.nanoTime();
        for (int first = 0; first < requests.size(); first += numAtOnce) {
            requests.subList(first, Math.min(requests.size(), first + numAtOnce))
                    .forEach(engine::submit);
            for (StepReport report = engine.step(); report != null; report = engine.step()) {
                for (SampleDelta delta : report.deltas()) {
                    numTokens += delta.tokenIds().length;
                    hash += delta.finished() == null
                            ? 0
                            : (delta.requestId() + delta.finished().text()).hashCode();
                }
            }
        }
        return new Outcome(numTokens * 1e9 / (System.nanoTime() - start), hash);
    }

    private static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }

    private static List<Request> requests(boolean quoting, float temperature) throws IOException {
        ObjectMapper json = new ObjectMapper();
        List<int[]> prompts = new ArrayList<>();
        List<int[]> answers = new ArrayList<>();
        for (String line : Files.readAllLines(MODEL.resolve("expected.jsonl"))) {
            JsonNode node = json.readTree(line);
            if (node.get("request_id").asText().startsWith("extraction")) {
                prompts.add(json.convertValue(node.get("prompt_token_ids"), int[].class));
                answers.add(json.convertValue(node.get("greedy_token_ids"), int[].class));
            }
        }
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < 64; i++) {
            int[] prompt = {};
            for (int q = quoting ? NUM_QUOTED : 0; q > 0; q--) {
                int quoted = (i + q) % prompts.size();
                prompt = join(prompt, join(prompts.get(quoted), answers.get(quoted)));
            }
            prompt = join(prompt, prompts.get(i % prompts.size()));
            SamplingParams params = SamplingParams.builder()
                    .temperature(temperature)
                    .seed(i)
                    .maxTokens(128)
                    .build();
            requests.add(new Request("r" + i, prompt, params));
        }
        return requests;
    }

    private static int[] join(int[] first, int[] second) {
        int[] joined = Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, joined, first.length, second.length);
        return joined;
    }
}
