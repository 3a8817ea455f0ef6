package io.millrace.bench.scenario;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import io.millrace.backend.cpu.CpuBackendProvider;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.engine.EngineConfig;
import io.millrace.engine.InferenceEngine;
import io.millrace.engine.Request;
import io.millrace.engine.StepReport;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.plan.ModelShape;
import io.millrace.prefix.TierConfig;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.SamplingParams;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What lossy formats of the prefix tier cost. Documents are scored once with KV as computed and once a lossy format, with the
 * same tokens at every position, and the logits of all positions are compared; then each document is gone on from greedily.
 * Every block is rounded as soon as it is whole: a tier of longer chunks rounds no more than that.
 */
public final class KvDtypesScenario implements Scenario {
    private static final int DOCUMENT_TOKENS = 384;
    private static final int NEW_TOKENS = 64;
    private static final int BLOCK_SIZE = EngineConfig.DEFAULT_BLOCK_SIZE;
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Far above what was seen of the demo model, far below what a wrong scale would make. */
    private static final Map<KvFormat, Double> MAX_RMS_OVER_STD = Map.of(KvFormat.INT8, 0.05, KvFormat.INT4, 0.5);

    private static final Map<KvFormat, Double> MIN_AGREEMENT = Map.of(KvFormat.INT8, 0.97, KvFormat.INT4, 0.75);

    private static final class Error {
        double sumSquares;
        double largest;
        long numNumbers;
        long numPositions;
        long numAgreeing;
        long numGreedyTokens;
        long numGreedyEqual;
    }

    @Override
    public Report run(BenchSettings settings) {
        List<int[]> documents = documents(settings, settings.pick(8, 32));
        boolean isText = Files.exists(examples(settings));
        Report report = Machine.newReport("kv-dtypes", settings)
                .config("documents", documents.size())
                .config("document_tokens", DOCUMENT_TOKENS)
                .config("document_kind", isText ? "examples of the model" : "random tokens")
                .config("new_tokens", NEW_TOKENS)
                .config("rounded_every_tokens", BLOCK_SIZE);
        Table table = report.table(
                "kv_dtypes",
                "kv_format",
                "bytes_per_token",
                "size_ratio",
                "logit_rms_error_over_std",
                "logit_max_error_over_std",
                "argmax_agreement",
                "greedy_tokens_equal");
        double computedBytes = bytesPerToken(settings, KvFormat.AS_COMPUTED);
        table.add("as-computed", computedBytes, 1.0, 0.0, 0.0, 1.0, 1.0);
        Map<KvFormat, Error> errors = measure(settings, documents);
        errors.forEach((format, error) -> {
            double bytes = bytesPerToken(settings, format);
            double rms = Math.sqrt(error.sumSquares / error.numNumbers);
            double agreement = (double) error.numAgreeing / error.numPositions;
            table.add(
                    format.optionName(),
                    bytes,
                    computedBytes / bytes,
                    rms,
                    error.largest,
                    agreement,
                    (double) error.numGreedyEqual / error.numGreedyTokens);
            String name = "kv-dtypes: " + format.optionName();
            report.check(name + ", bytes over those of its bits and scales", overIdeal(settings, format), Op.EQUAL, 1);
            if (isText) {
                report.check(name + ", RMS logit error over std", rms, Op.AT_MOST, MAX_RMS_OVER_STD.get(format));
                report.check(name + ", greedy agreement", agreement, Op.AT_LEAST, MIN_AGREEMENT.get(format));
            }
        });
        return report;
    }

    private static KvLayout layout(BenchSettings settings) {
        ModelShape shape = settings.model().shape();
        return new KvLayout(
                shape.numLayers(), shape.numKvHeads(), shape.headDim(), BLOCK_SIZE, settings.bfloat16() ? 2 : 4);
    }

    private static double bytesPerToken(BenchSettings settings, KvFormat format) {
        return (double) layout(settings).bytes(1, format) / BLOCK_SIZE;
    }

    /** Bytes over bits of all numbers and a float32 scale for each key and value of a head. */
    private static double overIdeal(BenchSettings settings, KvFormat format) {
        ModelShape shape = settings.model().shape();
        double numVectors = 2.0 * shape.numLayers() * shape.numKvHeads();
        double bits = format == KvFormat.INT8 ? 8 : 4;
        return bytesPerToken(settings, format) / (numVectors * (shape.headDim() * bits / 8 + Float.BYTES));
    }

    private static Map<KvFormat, Error> measure(BenchSettings settings, List<int[]> documents) {
        Map<KvFormat, Error> errors = new TreeMap<>();
        try (Scorer exact = new Scorer(settings, KvFormat.AS_COMPUTED);
                Scorer int8 = new Scorer(settings, KvFormat.INT8);
                Scorer int4 = new Scorer(settings, KvFormat.INT4)) {
            for (int i = 0; i < documents.size(); i++) {
                settings.say("kv-dtypes, document %d of %d", i + 1, documents.size());
                List<float[]> expected = exact.score(documents.get(i));
                int[] continued = exact.goOn(documents.get(i));
                for (Scorer scorer : List.of(int8, int4)) {
                    Error error = errors.computeIfAbsent(scorer.format, format -> new Error());
                    compare(expected, scorer.score(documents.get(i)), error);
                    int[] other = scorer.goOn(documents.get(i));
                    error.numGreedyTokens += continued.length;
                    error.numGreedyEqual += Arrays.mismatch(continued, other) < 0
                            ? continued.length
                            : Arrays.mismatch(continued, other);
                }
            }
        }
        return errors;
    }

    private static void compare(List<float[]> expected, List<float[]> actual, Error error) {
        if (expected.size() != actual.size()) {
            throw new IllegalStateException(expected.size() + " rows of logits, and " + actual.size());
        }
        for (int row = 0; row < expected.size(); row++) {
            float[] a = expected.get(row);
            float[] b = actual.get(row);
            double std = standardDeviation(a);
            for (int id = 0; id < a.length; id++) {
                double difference = (b[id] - a[id]) / std;
                error.sumSquares += difference * difference;
                error.largest = Math.max(error.largest, Math.abs(difference));
            }
            error.numNumbers += a.length;
            error.numPositions++;
            error.numAgreeing += argmax(a) == argmax(b) ? 1 : 0;
        }
    }

    private static double standardDeviation(float[] values) {
        double sum = 0;
        double squares = 0;
        for (float value : values) {
            sum += value;
            squares += (double) value * value;
        }
        double mean = sum / values.length;
        return Math.sqrt(squares / values.length - mean * mean);
    }

    private static int argmax(float[] values) {
        int best = 0;
        for (int i = 1; i < values.length; i++) {
            best = values[i] > values[best] ? i : best;
        }
        return best;
    }

    private static Path examples(BenchSettings settings) {
        return settings.model().directory().resolve("expected.jsonl");
    }

    /** The model's examples, prompts with their answers, one after another; random tokens where it has none. */
    private static List<int[]> documents(BenchSettings settings, int count) {
        Path file = examples(settings);
        List<int[]> documents = new ArrayList<>();
        int[] text = {};
        if (Files.exists(file)) {
            try {
                for (String line : Files.readAllLines(file)) {
                    JsonNode example = JSON.readTree(line);
                    for (String part : List.of("prompt_token_ids", "greedy_token_ids")) {
                        int[] ids = JSON.convertValue(example.get(part), int[].class);
                        text = Arrays.copyOf(text, text.length + ids.length);
                        System.arraycopy(ids, 0, text, text.length - ids.length, ids.length);
                    }
                }
            } catch (IOException e) {
                throw new UncheckedIOException(file + " cannot be read: " + e.getMessage(), e);
            }
            for (int at = 0; at + DOCUMENT_TOKENS <= text.length && documents.size() < count; at += DOCUMENT_TOKENS) {
                documents.add(Arrays.copyOfRange(text, at, at + DOCUMENT_TOKENS));
            }
            return documents;
        }
        Workload workload = new Workload(settings.model().shape().vocabSize(), settings.seed());
        for (int i = 0; i < Math.min(count, 8); i++) {
            documents.add(workload.prompt(DOCUMENT_TOKENS));
        }
        return documents;
    }

    /** An engine with KV in one format, whose logits are kept. */
    private static final class Scorer implements AutoCloseable {
        final KvFormat format;
        private final InferenceEngine engine;
        private final Map<Integer, float[]> rows = new ConcurrentHashMap<>();
        private volatile boolean keeps;
        private int numRequests;

        Scorer(BenchSettings settings, KvFormat format) {
            this.format = format;
            int vocabSize = settings.model().shape().vocabSize();
            EngineConfig config = new EngineConfig(
                            settings.model().directory().toString(),
                            "cpu",
                            settings.dtype(),
                            DOCUMENT_TOKENS + NEW_TOKENS,
                            1,
                            DOCUMENT_TOKENS,
                            2L * (DOCUMENT_TOKENS + NEW_TOKENS) * EngineSession.kvBytesPerToken(settings),
                            false,
                            BLOCK_SIZE,
                            settings.numThreads(),
                            LogprobsMode.RAW_LOGPROBS)
                    .withTier(
                            format.isLossy()
                                    ? new TierConfig(format, BLOCK_SIZE, false, TierConfig.DEFAULT.maxBufferBytes(), 1)
                                    : null);
            engine = InferenceEngine.open(config, new CpuBackendProvider((row, logits, offset) -> {
                if (keeps) {
                    rows.put(row, Arrays.copyOfRange(logits, offset, offset + vocabSize));
                }
            }));
        }

        /** The logits after each of the document's tokens. */
        List<float[]> score(int[] document) {
            keeps = true;
            List<float[]> logits = new ArrayList<>();
            SamplingParams params = SamplingParams.builder()
                    .temperature(0)
                    .maxTokens(1)
                    .numPromptLogprobs(0)
                    .build();
            submit(document, params);
            for (StepReport report = engine.step(); report != null; report = engine.step()) {
                requireNoFailure(report);
                for (int row = 0; row < rows.size(); row++) {
                    logits.add(rows.get(row));
                }
                rows.clear();
            }
            keeps = false;
            return logits;
        }

        int[] goOn(int[] document) {
            List<Integer> ids = new ArrayList<>();
            submit(
                    document,
                    SamplingParams.builder()
                            .temperature(0)
                            .maxTokens(NEW_TOKENS)
                            .ignoreEos(true)
                            .build());
            for (StepReport report = engine.step(); report != null; report = engine.step()) {
                requireNoFailure(report);
                for (SampleDelta delta : report.deltas()) {
                    for (int id : delta.tokenIds()) {
                        ids.add(id);
                    }
                }
            }
            return ids.stream().mapToInt(Integer::intValue).toArray();
        }

        private void submit(int[] document, SamplingParams params) {
            engine.submit(new Request("document-" + numRequests++, document, params));
        }

        private static void requireNoFailure(StepReport report) {
            if (!report.failures().isEmpty()) {
                throw new IllegalStateException(
                        "scoring failed: " + report.failures().get(0).message());
            }
        }

        @Override
        public void close() {
            engine.close();
        }
    }
}
