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
import java.util.List;

/**
 * Prompt lookup against plain steps on the demo model, whose questions and answers lie beside it: extraction as JSON, each
 * question alone, behind two earlier ones with their answers, and asked a second time, so that the answer quotes the prompt.
 * One request at a time and 64 together, these in more rounds, since one is over sooner. Blocks with and without speculation
 * alternate, in turned order every other round, on two pairs of engines opened in turned order, since where an engine's memory
 * lies counts too; the median of the rounds' ratios counts. A difference of outputs fails the run.
 */
public final class SpeculationScenario implements Scenario {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String ANSWERS_FILE = "expected.jsonl";
    private static final int NUM_REQUESTS = 64;
    private static final int MAX_NEW_TOKENS = 128;
    private static final long KV_CACHE_BYTES = 128L << 20;
    private static final int[] AT_ONCE = {1, NUM_REQUESTS};
    private static final int ROUNDS_TOGETHER = 4; // for every round of one request at a time
    private static final SpeculativeConfig LOOKUP = SpeculativeConfig.of(SpeculationMethod.NGRAM, "");

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

    private record Block(double tokensPerSecond, int textHash) {}

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

        @Override
        public void close() {
            try (plain;
                    speculative) {}
        }
    }

    @Override
    public Report run(BenchSettings settings) {
        int numRounds = settings.pick(12, 36);
        Report report = Machine.newReport("speculation", settings)
                .config("method", SpeculationMethod.NGRAM.optionName())
                .config("requests", NUM_REQUESTS)
                .config("rounds", numRounds)
                .config("rounds_together", numRounds * ROUNDS_TOGETHER);
        Table table = report.table(
                "speculation",
                "workload",
                "temperature",
                "at_once",
                "plain_tokens_per_s",
                "speculative_tokens_per_s",
                "ratio",
                "proposed",
                "accepted_percent");
        double quotingAlone = Double.POSITIVE_INFINITY;
        double anyTogether = Double.POSITIVE_INFINITY;
        double anyAlone = Double.POSITIVE_INFINITY;
        warmUpAll(settings);
        for (Workload workload : WORKLOADS) {
            List<Request> requests = requests(settings, workload);
            for (int numAtOnce : AT_ONCE) {
                settings.say(
                        "speculation, %s, temperature %.0f, %d at once",
                        workload.name, workload.temperature, numAtOnce);
                int rounds = numAtOnce == 1 ? numRounds : numRounds * ROUNDS_TOGETHER;
                double ratio = compare(settings, workload, requests, numAtOnce, rounds, table);
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
    private static void warmUpAll(BenchSettings settings) {
        settings.say("speculation, warming up all workloads");
        EngineConfig config = config(settings);
        for (Workload workload : WORKLOADS) {
            List<Request> requests = requests(settings, workload);
            try (Engines engines = Engines.open(config, true)) {
                for (int numAtOnce : AT_ONCE) {
                    block(engines.plain, requests, numAtOnce);
                    block(engines.speculative, requests, numAtOnce);
                }
            }
        }
    }

    private static double compare(
            BenchSettings settings,
            Workload workload,
            List<Request> requests,
            int numAtOnce,
            int numRounds,
            Table table) {
        EngineConfig config = config(settings);
        try (Engines one = Engines.open(config, true);
                Engines other = Engines.open(config, false)) {
            for (Engines engines : List.of(one, other)) {
                WarmUp.untilStable(
                        settings.pick(3, 20),
                        () -> 1 / block(engines.plain, requests, numAtOnce).tokensPerSecond()
                                + 1
                                        / block(engines.speculative, requests, numAtOnce)
                                                .tokensPerSecond());
            }
            Samples without = new Samples();
            Samples with = new Samples();
            Samples ratios = new Samples();
            for (int round = 0; round < numRounds; round++) {
                Engines engines = round / 2 % 2 == 0 ? one : other;
                boolean plainFirst = round % 2 == 0;
                Block first = block(plainFirst ? engines.plain : engines.speculative, requests, numAtOnce);
                Block second = block(plainFirst ? engines.speculative : engines.plain, requests, numAtOnce);
                if (first.textHash() != second.textHash()) {
                    throw new IllegalStateException("speculation changed the outputs of " + workload);
                }
                Block slow = plainFirst ? first : second;
                Block fast = plainFirst ? second : first;
                without.add(slow.tokensPerSecond());
                with.add(fast.tokensPerSecond());
                ratios.add(fast.tokensPerSecond() / slow.tokensPerSecond());
            }
            SpeculationStats ofOne = one.speculative.stats().speculation();
            SpeculationStats ofOther = other.speculative.stats().speculation();
            long numProposed = ofOne.numProposedTokens() + ofOther.numProposedTokens();
            long numAccepted = ofOne.numAcceptedTokens() + ofOther.numAcceptedTokens();
            table.add(
                    workload.name,
                    workload.temperature,
                    numAtOnce,
                    without.median(),
                    with.median(),
                    ratios.median(),
                    numProposed,
                    numProposed == 0 ? 0.0 : 100.0 * numAccepted / numProposed);
            return ratios.median();
        }
    }

    private static Block block(InferenceEngine engine, List<Request> requests, int numAtOnce) {
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
        return new Block(numTokens * 1e9 / (System.nanoTime() - start), hash);
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
