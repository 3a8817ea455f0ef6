package io.millrace.bench.scenario;

import io.millrace.backend.KvFormat;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.bench.scenario.QuestionsJob.Answered;
import io.millrace.engine.EngineConfig;
import io.millrace.operators.tier.TierKind;
import io.millrace.prefix.TierConfig;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/**
 * Five questions about every document, shuffled, through the whole job, with KV memory for a quarter of the documents (12 of
 * 1,024 tokens, memory for three; fewer and shorter ones unless a report is wanted): without a tier, with one in Flink's state, with one on
 * local disk.
 */
final class TierFlinkPart {
    private static final int QUESTIONS_PER_DOCUMENT = 5;
    private static final int QUESTION_TOKENS = 24;
    private static final int NEW_TOKENS = 16;
    private static final int NUM_SLOTS = 3;
    private static final int DOCUMENTS_PER_ONE_IN_MEMORY = 4;
    private static final TierConfig FROM_FIRST_USE =
            new TierConfig(KvFormat.AS_COMPUTED, TierConfig.DEFAULT_CHUNK_TOKENS, true, 256L << 20, 10_000);

    private final BenchSettings settings;
    private final Report report;
    private final int numDocuments;
    private final int numDocumentTokens;
    private final int numQuestions;
    private final int numDocumentsInMemory;

    TierFlinkPart(BenchSettings settings, Report report) {
        this.settings = settings;
        this.report = report;
        numDocuments = settings.pick(4, 12);
        numDocumentTokens = settings.pick(512, 1024);
        numQuestions = numDocuments * QUESTIONS_PER_DOCUMENT;
        numDocumentsInMemory = numDocuments / DOCUMENTS_PER_ONE_IN_MEMORY;
    }

    void run() throws InterruptedException {
        int numRounds = settings.pick(1, 3);
        report.config(
                "questions",
                numQuestions + " over " + numDocuments + " documents of " + numDocumentTokens
                        + " tokens, KV memory for " + numDocumentsInMemory + ", stored from the first use");
        Map<TierKind, Figures> figures = new EnumMap<>(TierKind.class);
        for (TierKind kind : TierKind.values()) {
            figures.put(kind, new Figures());
        }
        for (int round = 0; round < numRounds; round++) {
            DocumentQuestions questions = questions(settings.seed() + round);
            for (TierKind kind : order(round)) {
                settings.say("tier, questions through the job, tier %s", kind.optionName());
                figures.get(kind).add(serve(kind, questions));
            }
        }
        Table table = report.table(
                "questions",
                "tier",
                "rounds",
                "seconds",
                "questions_per_s",
                "mean_ttft_ms",
                "prompt_tokens",
                "prompt_tokens_computed",
                "cached_tokens",
                "tier_tokens",
                "mb_written",
                "mb_read",
                "read_mb_per_s");
        figures.forEach((kind, each) -> each.addTo(table, kind));
    }

    private static List<TierKind> order(int round) {
        return round % 2 == 0
                ? List.of(TierKind.NONE, TierKind.STATE, TierKind.DISK)
                : List.of(TierKind.DISK, TierKind.STATE, TierKind.NONE);
    }

    private DocumentQuestions questions(long seed) {
        try {
            return DocumentQuestions.of(
                    numDocuments, numDocumentTokens, numQuestions, QUESTION_TOKENS, NEW_TOKENS, seed);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Answered serve(TierKind kind, DocumentQuestions questions) throws InterruptedException {
        int numSlots = Math.min(NUM_SLOTS, numDocumentsInMemory);
        int perSlot = QUESTION_TOKENS + NEW_TOKENS + 2 * EngineSession.BLOCK_SIZE;
        long numKvTokens = (long) numDocumentsInMemory * (numDocumentTokens + perSlot);
        EngineConfig engine = EngineSession.config(
                settings,
                new EngineSession.Options(
                        numSlots, numKvTokens, true, true, kind == TierKind.NONE ? null : FROM_FIRST_USE, null));
        try (QuestionsJob job = new QuestionsJob(
                settings.home().resolve("questions-" + ProcessHandle.current().pid()), kind)) {
            return job.answer(engine, kind, questions);
        }
    }

    /** One kind's rounds. */
    private final class Figures {
        final Samples seconds = new Samples();
        final Samples ttft = new Samples();
        final Samples prompt = new Samples();
        final Samples computed = new Samples();
        final Samples cached = new Samples();
        final Samples loaded = new Samples();
        final Samples written = new Samples();
        final Samples read = new Samples();
        final Samples readRate = new Samples();

        void add(Answered answered) {
            seconds.add(answered.seconds());
            ttft.add(answered.meanTtftMillis());
            prompt.add(answered.numPromptTokens());
            computed.add(answered.numComputedTokens());
            cached.add(answered.numCachedTokens());
            loaded.add(answered.numTierTokens());
            written.add(answered.numBytesWritten() / 1e6);
            read.add(answered.numBytesRead() / 1e6);
            readRate.add(answered.readNanos() == 0 ? Double.NaN : answered.numBytesRead() * 1e3 / answered.readNanos());
        }

        void addTo(Table table, TierKind kind) {
            table.add(
                    kind.optionName(),
                    seconds.count(),
                    seconds.median(),
                    numQuestions / seconds.median(),
                    ttft.median(),
                    prompt.median(),
                    computed.median(),
                    cached.median(),
                    loaded.median(),
                    written.median(),
                    read.median(),
                    readRate.median());
        }
    }
}
