package io.millrace.bench.scenario;

import io.millrace.backend.KvFormat;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.bench.tier.MemoryStore;
import io.millrace.bench.tier.SignTest;
import io.millrace.engine.Request;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierConfig;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;

/**
 * What a tier costs that is of no use: attached while nothing is stored, and writing everything behind. Blocks are short and
 * many: a slow moment of the machine then falls on few of them, and the bound of the median is close to it. Where a report is
 * wanted, each comparison is made with two pairs of engines, made in either order, since where an engine's memory lies is worth
 * up to a percent, too.
 */
final class TierOverheadPart {
    private static final int NUM_DECODING = 16;
    private static final int PROMPT_TOKENS = 256;
    private static final int SHORT_PROMPT_TOKENS = 144; // a chunk and a block
    private static final int NEW_TOKENS = 16;
    private static final int STEPS_PER_BLOCK = 2;
    private static final int QUICK_WARM_UP_SECONDS = 2;
    private static final int WARM_UP_SECONDS = 4;
    private static final int QUICK_PROMPT_WARM_UP_SECONDS = 1;
    private static final int PROMPT_WARM_UP_SECONDS = 2;
    private static final TierConfig UNUSED = TierConfig.DEFAULT;
    private static final TierConfig WRITING =
            new TierConfig(KvFormat.AS_COMPUTED, TierConfig.DEFAULT_CHUNK_TOKENS, true, 256L << 20, 10_000);

    private final BenchSettings settings;
    private final Report report;
    private final Table table;
    private final Workload workload;

    /**
     * What is compared.
     *
     * @param numPairs of blocks, in each order of making the engines
     * @param prepare what both engines do first
     * @param block what is timed; returns its seconds
     * @param end told the engine with the tier before it is closed
     */
    private record Comparison(
            String what,
            int numPairs,
            TierConfig tier,
            Supplier<PrefixStore> store,
            Consumer<EngineSession> prepare,
            ToDoubleFunction<EngineSession> block,
            Consumer<EngineSession> end) {}

    TierOverheadPart(BenchSettings settings, Report report) {
        this.settings = settings;
        this.report = report;
        this.workload = new Workload(settings.model().shape().vocabSize(), settings.seed());
        table = report.table("overhead", "what", "pairs", "without_ms", "with_ms", "rate_ratio", "rate_ratio_at_least");
    }

    void run() {
        settings.say("tier, overhead: decoding beside a tier that has nothing");
        int numDecodePairs = settings.pick(20, 200);
        double decoding = compare(new Comparison(
                "decode steps, tier unused",
                numDecodePairs,
                UNUSED,
                MemoryStore::new,
                session -> beginDecoding(session, numDecodePairs),
                TierOverheadPart::steps,
                session -> {}));
        check("tier attached but unused: decode step rate, 95 % bound", decoding, 0.99);
        settings.say("tier, overhead: prompts beside a tier that has nothing");
        ToDoubleFunction<EngineSession> onePrompt = session -> prompts(session, 1, SHORT_PROMPT_TOKENS, 1);
        double prompts = compare(new Comparison(
                "prompts, tier unused",
                settings.pick(12, 200),
                UNUSED,
                MemoryStore::new,
                session -> warmUp(session, onePrompt),
                onePrompt,
                session -> {}));
        check("tier attached but unused: rate of computing prompts, 95 % bound", prompts, 0.99);
        writing();
    }

    private void writing() {
        settings.say("tier, overhead: storing everything behind");
        long[] numChunks = new long[2]; // stored, dropped
        ToDoubleFunction<EngineSession> block = session -> prompts(session, 2, PROMPT_TOKENS, NEW_TOKENS);
        double bound = compare(new Comparison(
                "prompts and decoding, storing all of it to disk",
                settings.pick(5, 48),
                WRITING,
                () -> TierStores.openDisk(settings),
                session -> warmUp(session, block),
                block,
                session -> {
                    numChunks[0] += session.stats().tier().numChunksExported();
                    numChunks[1] += session.stats().tier().store().numChunksDropped();
                }));
        report.config("chunks_stored_behind", numChunks[0]);
        report.config("chunks_dropped_behind", numChunks[1]);
        check("writing behind: throughput, 95 % bound", numChunks[0] == 0 ? Double.NaN : bound, 0.97);
    }

    /** Bounds of few pairs lie too far from the median to be held against one percent. */
    private void check(String name, double bound, double limit) {
        boolean isBound = settings.full();
        report.check(
                isBound ? name : name + " (so many pairs: --full)", isBound ? bound : Double.NaN, Op.AT_LEAST, limit);
    }

    private EngineSession session(TierConfig tier, PrefixStore store) {
        long numKvTokens = (long) NUM_DECODING * 1024;
        return new EngineSession(
                settings, new EngineSession.Options(NUM_DECODING, numKvTokens, true, true, tier, store));
    }

    private void beginDecoding(EngineSession session, int numPairs) {
        session.warmUp(workload, NUM_DECODING, 64, settings.pick(QUICK_WARM_UP_SECONDS, WARM_UP_SECONDS));
        for (int i = 0; i < NUM_DECODING; i++) {
            session.submit(workload.request(64, (numPairs + 2) * STEPS_PER_BLOCK));
        }
        session.prefill(NUM_DECODING);
    }

    /** What a tier does for prompts is compiled only when prompts have come. */
    private void warmUp(EngineSession session, ToDoubleFunction<EngineSession> block) {
        int enough = settings.pick(QUICK_PROMPT_WARM_UP_SECONDS, PROMPT_WARM_UP_SECONDS);
        for (double seconds = 0; seconds < enough; ) {
            seconds += block.applyAsDouble(session);
        }
    }

    private static double steps(EngineSession session) {
        double sum = 0;
        for (int i = 0; i < STEPS_PER_BLOCK; i++) {
            sum += session.timedStep();
        }
        return sum;
    }

    private double prompts(EngineSession session, int numPrompts, int numTokens, int numNewTokens) {
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < numPrompts; i++) {
            requests.add(workload.request(numTokens, numNewTokens));
        }
        return session.runToEnd(requests);
    }

    /** Returns what the ratio of rates is at least. */
    private double compare(Comparison comparison) {
        Ratios ratios = new Ratios();
        for (boolean tierFirst : settings.full() ? new boolean[] {false, true} : new boolean[] {false}) {
            try (EngineSession first = session(comparison, tierFirst);
                    EngineSession second = session(comparison, !tierFirst)) {
                EngineSession without = tierFirst ? second : first;
                EngineSession with = tierFirst ? first : second;
                ToDoubleFunction<EngineSession> block = comparison.block();
                alternate(
                        ratios,
                        comparison.numPairs(),
                        () -> block.applyAsDouble(without),
                        () -> block.applyAsDouble(with));
                comparison.end().accept(with);
            }
        }
        return ratios.report(comparison.what());
    }

    private EngineSession session(Comparison comparison, boolean hasTier) {
        EngineSession session =
                hasTier ? session(comparison.tier(), comparison.store().get()) : session(null, null);
        comparison.prepare().accept(session);
        return session;
    }

    /** Runs both sides in turns, either first as often. */
    private static void alternate(Ratios ratios, int numPairs, DoubleSupplier without, DoubleSupplier with) {
        without.getAsDouble();
        with.getAsDouble();
        for (int pair = 0; pair < numPairs; pair++) {
            double first = (pair % 2 == 0 ? without : with).getAsDouble();
            double second = (pair % 2 == 0 ? with : without).getAsDouble();
            ratios.add(pair % 2 == 0 ? first : second, pair % 2 == 0 ? second : first);
        }
    }

    /** What pairs of blocks took. */
    private final class Ratios {
        private final Samples ratios = new Samples();
        private final Samples withoutSeconds = new Samples();
        private final Samples withSeconds = new Samples();

        void add(double without, double with) {
            withoutSeconds.add(without);
            withSeconds.add(with);
            ratios.add(without / with);
        }

        /** Writes a row; returns what the rate's ratio is at least. */
        double report(String what) {
            double[] values = ratios.values();
            double bound = SignTest.lowerBound(values);
            table.add(
                    what,
                    values.length,
                    withoutSeconds.median() * 1e3,
                    withSeconds.median() * 1e3,
                    ratios.median(),
                    bound);
            return bound;
        }
    }
}
