package io.millrace.bench.scenario;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.engine.EngineConfig;
import io.millrace.engine.InferenceEngine;
import io.millrace.engine.Request;
import io.millrace.engine.SpeculativeConfig;
import io.millrace.engine.StepReport;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.model.InvalidModelException;
import io.millrace.sampling.SamplingParams;
import io.millrace.speculation.SpeculationMethod;
import io.millrace.speculation.SpeculationStats;
import io.millrace.tokenizer.ChatMessage;
import io.millrace.tokenizer.Tokenizer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Prompt lookup against plain steps on the demo model, whose questions and answers lie beside it: extraction as JSON, each
 * question alone, behind two earlier ones with their answers, and asked a second time, so that the answer quotes the prompt.
 * One request at a time, and 64 together. Two steps with speculation and two without alternate, or a request of each where one
 * runs at a time, so that a slow moment of the machine falls on both; the order is turned every other round. Where an engine's
 * memory lies is worth some percent, too, so there are several pairs of engines, opened in turned order one after the other: the
 * median of a pair's rounds counts, and the mean over the pairs but the least and the most. A difference of outputs fails the run.
 */
public final class SpeculationScenario implements Scenario {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String ANSWERS_FILE = "expected.jsonl";
    private static final int NUM_REQUESTS = 64;
    private static final int MAX_NEW_TOKENS = 128;
    private static final long KV_CACHE_BYTES = 128L << 20;
    private static final int STEPS_PER_TURN = 2;
    private static final int WARM_UP_PASSES = 2;
    private static final SpeculativeConfig LOOKUP = SpeculativeConfig.of(SpeculationMethod.NGRAM, "");

    /**
     * How much is run by each pair of engines.
     *
     * @param numAtOnce requests that run together
     * @param numRequests in a round
     * @param stepsPerTurn after which the other engine has its turn; a request alone is run to its end
     * @param numWarmUpRounds first: prompts' prefixes are cached then, costs and chances known
     * @param numRounds that are measured; even
     */
    private record Size(int numAtOnce, int numRequests, int stepsPerTurn, int numWarmUpRounds, int numRounds) {
        static List<Size> all(BenchSettings settings) {
            return List.of(
                    new Size(1, settings.pick(32, NUM_REQUESTS), Integer.MAX_VALUE, 1, settings.pick(2, 12)),
                    new Size(NUM_REQUESTS, NUM_REQUESTS, STEPS_PER_TURN, 3, settings.pick(6, 24)));
        }
    }

    /** What the pairs of engines came to at one size. */
    private static final class Results {
        final Samples plainRates = new Samples();
        final Samples speculativeRates = new Samples();
        final Samples ratios = new Samples(); // medians, a pair each
        long numProposed;
        long numAccepted;

        /** The mean of the pairs' ratios but the least and the most, each of which may be one slow moment. */
        double ratio() {
            return Arrays.stream(ratios.values())
                    .sorted()
                    .limit(ratios.count() - 1)
                    .skip(1)
                    .average()
                    .orElseThrow();
        }
    }

    /** What comes before a question: some that follow it in the file, or itself, with their answers. */
    private record Workload(String name, int numEarlier, boolean isAskedAgain, float temperature) {
        boolean isQuoting() {
            return numEarlier > 0 || isAskedAgain;
        }
    }

    private static final List<Workload> WORKLOADS = List.of(
            new Workload("question alone", 0, false, 0),
            new Workload("behind two others", 2, false, 0),
            new Workload("behind two others", 2, false, 1),
            new Workload("asked again", 0, true, 0));

    private record Question(String text, String answer) {}

    private record Round(double plainTokensPerSecond, double speculativeTokensPerSecond) {}

    /** What one of two engines does in a round. */
    private static final class Side {
        private final InferenceEngine engine;
        private long nanos;
        private int numTokens;
        private int textHash;
        private boolean isBusy;

        Side(InferenceEngine engine) {
            this.engine = engine;
        }

        void begin(List<Request> requests) {
            requests.forEach(engine::submit);
            isBusy = true;
        }

        void run(int maxSteps) {
            long start = System.nanoTime();
            for (int i = 0; i < maxSteps && isBusy; i++) {
                StepReport report = engine.step();
                isBusy = report != null;
                if (isBusy) {
                    report.deltas().forEach(this::count);
                }
            }
            nanos += System.nanoTime() - start;
        }

        private void count(SampleDelta delta) {
            numTokens += delta.tokenIds().length;
            if (delta.finished() != null) {
                textHash += (delta.requestId() + delta.finished().text()).hashCode();
            }
        }

        double tokensPerSecond() {
            return numTokens * 1e9 / nanos;
        }
    }

    /** Two engines that differ in nothing but speculation. */
    private record Engines(InferenceEngine plain, InferenceEngine speculative) implements AutoCloseable {
        static Engines open(EngineConfig config, boolean plainFirst) {
            EngineConfig lookup = config.withSpeculative(LOOKUP);
            InferenceEngine first = InferenceEngine.open(plainFirst ? config : lookup);
            try {
                InferenceEngine second = InferenceEngine.open(plainFirst ? lookup : config);
                return plainFirst ? new Engines(first, second) : new Engines(second, first);
            } catch (RuntimeException | Error e) {
                first.close();
                throw e;
            }
        }

        /** Runs the requests on both, in turns. */
        Round run(List<Request> requests, Size size, boolean plainFirst) {
            Side without = new Side(plain);
            Side with = new Side(speculative);
            Side first = plainFirst ? without : with;
            Side second = plainFirst ? with : without;
            for (int from = 0; from < size.numRequests; from += size.numAtOnce) {
                List<Request> together = requests.subList(from, from + size.numAtOnce);
                first.begin(together);
                second.begin(together);
                while (first.isBusy || second.isBusy) {
                    first.run(size.stepsPerTurn);
                    second.run(size.stepsPerTurn);
                }
            }
            if (first.textHash != second.textHash) {
                throw new IllegalStateException("speculation changed the outputs, " + size.numAtOnce + " at once");
            }
            return new Round(without.tokensPerSecond(), with.tokensPerSecond());
        }

        @Override
        public void close() {
            try (plain;
                    speculative) {}
        }
    }

    @Override
    public Report run(BenchSettings settings) {
        List<Size> sizes = Size.all(settings);
        int numPairs = settings.pick(6, 8);
        Report report = Machine.newReport("speculation", settings)
                .config("method", SpeculationMethod.NGRAM.optionName())
                .config("engine_pairs", numPairs);
        for (Size size : sizes) {
            report.config("requests_" + size.numAtOnce + "_at_once", size.numRequests)
                    .config("rounds_per_pair_" + size.numAtOnce + "_at_once", size.numRounds);
        }
        Table table = report.table(
                "speculation",
                "workload",
                "temperature",
                "at_once",
                "plain_tokens_per_s",
                "speculative_tokens_per_s",
                "ratio",
                "least_pair",
                "most_pair",
                "proposed",
                "accepted_percent");
        double quotingAlone = Double.POSITIVE_INFINITY;
        double anyTogether = Double.POSITIVE_INFINITY;
        double anyAlone = Double.POSITIVE_INFINITY;
        warmUpAll(settings, sizes);
        for (Workload workload : WORKLOADS) {
            List<Request> requests = requests(settings, workload);
            settings.say("speculation, %s, temperature %.0f", workload.name, workload.temperature);
            List<Results> results = compare(settings, requests, sizes, numPairs);
            for (int i = 0; i < sizes.size(); i++) {
                int numAtOnce = sizes.get(i).numAtOnce;
                addRow(table, workload, numAtOnce, results.get(i));
                double ratio = results.get(i).ratio();
                if (numAtOnce > 1) {
                    anyTogether = Math.min(anyTogether, ratio);
                } else {
                    anyAlone = Math.min(anyAlone, ratio);
                    quotingAlone = workload.isQuoting() ? Math.min(quotingAlone, ratio) : quotingAlone;
                }
            }
        }
        report.check(
                "prompt lookup over plain, batch 1, the least of prompts that can be quoted: speed",
                quotingAlone,
                Op.AT_LEAST,
                1.5);
        report.check(
                "prompt lookup over plain, batch 64, the least of all workloads: speed",
                anyTogether,
                Op.AT_LEAST,
                0.98);
        report.check(
                "prompt lookup over plain, batch 1, the least of all workloads: speed", anyAlone, Op.AT_LEAST, 0.98);
        return report;
    }

    private static EngineConfig config(BenchSettings settings) {
        return EngineSession.config(
                settings,
                new EngineSession.Options(
                        NUM_REQUESTS, KV_CACHE_BYTES / EngineSession.kvBytesPerToken(settings), true, true));
    }

    /** Runs every workload with and without speculation, so that the first one measured finds code as compiled as the last. */
    private static void warmUpAll(BenchSettings settings, List<Size> sizes) {
        settings.say("speculation, warming up all workloads");
        for (int pass = 0; pass < WARM_UP_PASSES; pass++) {
            for (Workload workload : WORKLOADS) {
                List<Request> requests = requests(settings, workload);
                try (Engines engines = Engines.open(config(settings), true)) {
                    sizes.forEach(size -> engines.run(requests, size, true));
                }
            }
        }
    }

    /** What each size came to. */
    private static List<Results> compare(
            BenchSettings settings, List<Request> requests, List<Size> sizes, int numPairs) {
        List<Results> results = sizes.stream().map(size -> new Results()).toList();
        for (int pair = 0; pair < numPairs; pair++) {
            try (Engines engines = Engines.open(config(settings), pair % 2 == 0)) {
                for (int i = 0; i < sizes.size(); i++) {
                    measure(engines, requests, sizes.get(i), results.get(i));
                }
            }
        }
        return results;
    }

    private static void measure(Engines engines, List<Request> requests, Size size, Results results) {
        for (int round = 0; round < size.numWarmUpRounds; round++) {
            engines.run(requests, size, round % 2 == 0);
        }
        SpeculationStats before = engines.speculative.stats().speculation();
        Samples ratios = new Samples();
        for (int round = 0; round < size.numRounds; round++) {
            Round rates = engines.run(requests, size, round % 2 == 0);
            results.plainRates.add(rates.plainTokensPerSecond);
            results.speculativeRates.add(rates.speculativeTokensPerSecond);
            ratios.add(rates.speculativeTokensPerSecond / rates.plainTokensPerSecond);
        }
        SpeculationStats after = engines.speculative.stats().speculation();
        results.ratios.add(ratios.median());
        results.numProposed += after.numProposedTokens() - before.numProposedTokens();
        results.numAccepted += after.numAcceptedTokens() - before.numAcceptedTokens();
    }

    private static void addRow(Table table, Workload workload, int numAtOnce, Results results) {
        table.add(
                workload.name,
                workload.temperature,
                numAtOnce,
                results.plainRates.median(),
                results.speculativeRates.median(),
                results.ratio(),
                Arrays.stream(results.ratios.values()).min().orElseThrow(),
                Arrays.stream(results.ratios.values()).max().orElseThrow(),
                results.numProposed,
                results.numProposed == 0 ? 0.0 : 100.0 * results.numAccepted / results.numProposed);
    }

    private static List<Request> requests(BenchSettings settings, Workload workload) {
        List<Question> questions = questions(settings);
        List<Request> requests = new ArrayList<>();
        Path directory = settings.model().directory();
        try (Tokenizer tokenizer = Tokenizer.open(directory).orElseThrow(() -> unfit(directory, "tokenizer.json"))) {
            for (int i = 0; i < NUM_REQUESTS; i++) {
                List<ChatMessage> messages = new ArrayList<>();
                for (int earlier = workload.numEarlier; earlier > 0; earlier--) {
                    addRound(messages, questions.get((i + earlier) % questions.size()));
                }
                Question question = questions.get(i % questions.size());
                if (workload.isAskedAgain) {
                    addRound(messages, question);
                }
                messages.add(new ChatMessage("user", question.text()));
                SamplingParams sampling = SamplingParams.builder()
                        .temperature(workload.temperature)
                        .seed(settings.seed() + i)
                        .maxTokens(MAX_NEW_TOKENS)
                        .build();
                requests.add(new Request("bench-" + i, tokenizer.encodeChat(messages), sampling));
            }
        }
        return requests;
    }

    private static void addRound(List<ChatMessage> messages, Question question) {
        messages.add(new ChatMessage("user", question.text()));
        messages.add(new ChatMessage("assistant", question.answer()));
    }

    private static List<Question> questions(BenchSettings settings) {
        Path file = settings.model().directory().resolve(ANSWERS_FILE);
        List<Question> questions = new ArrayList<>();
        try {
            for (String line : Files.exists(file) ? Files.readAllLines(file) : List.<String>of()) {
                JsonNode node = JSON.readTree(line);
                if (node.path("request_id").asText().startsWith("extraction")) {
                    questions.add(new Question(
                            node.at("/messages/0/content").asText(),
                            node.path("greedy_text").asText()));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(file + " cannot be read: " + e, e);
        }
        if (questions.isEmpty()) {
            throw unfit(settings.model().directory(), ANSWERS_FILE + " with extraction questions and their answers");
        }
        return questions;
    }

    private static InvalidModelException unfit(Path directory, String missing) {
        return new InvalidModelException(directory + " has no " + missing
                + ": this scenario needs a model that answers; use --model models/millrace-tiny");
    }
}
