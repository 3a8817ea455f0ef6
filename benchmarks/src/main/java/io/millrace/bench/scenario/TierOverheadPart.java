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
import java.util.function.DoubleSupplier;

/**
 * What a tier costs that is of no use: attached while nothing is stored, and writing everything behind. Blocks are short and
 * many: a slow moment of the machine then falls on few of them, and the bound of the median is close to it. Decode steps are
 * compared in two pairs of engines, made in either order, since where an engine's memory lies is worth up to a percent, too.
 */
final class TierOverheadPart {
    private static final int NUM_DECODING = 16;
    private static final int PROMPT_TOKENS = 256;
    private static final int NEW_TOKENS = 16;
    private static final int STEPS_PER_BLOCK = 2;
    private static final double WARM_UP_SECONDS = 4;
    private static final TierConfig UNUSED = TierConfig.DEFAULT;
    private static final TierConfig WRITING =
            new TierConfig(KvFormat.AS_COMPUTED, TierConfig.DEFAULT_CHUNK_TOKENS, true, 256L << 20, 10_000);

    private final BenchSettings settings;
    private final Report report;
    private final Table table;
    private final Workload workload;

    TierOverheadPart(BenchSettings settings, Report report) {
        this.settings = settings;
        this.report = report;
        this.workload = new Workload(settings.model().shape().vocabSize(), settings.seed());
        table = report.table("overhead", "what", "pairs", "without_ms", "with_ms", "rate_ratio", "rate_ratio_at_least");
    }

    void run() {
        decoding();
        try (EngineSession without = session(null, null);
                EngineSession with = session(UNUSED, new MemoryStore())) {
            settings.say("tier, overhead: prompts beside a tier that has nothing");
            Ratios ratios = new Ratios();
            int numPairs = settings.pick(61, 241);
            alternate(ratios, numPairs, () -> prompts(without, 1, 1), () -> prompts(with, 1, 1));
            double bound = ratios.report("prompts, tier unused");
            check("tier attached but unused: rate of computing prompts, 95 % bound", bound, 0.99);
        }
        try (EngineSession without = session(null, null);
                EngineSession with = session(WRITING, TierStores.openDisk(settings))) {
            settings.say("tier, overhead: storing everything behind");
            Ratios ratios = new Ratios();
            int numPairs = settings.pick(31, 61);
            alternate(ratios, numPairs, () -> prompts(without, 2, NEW_TOKENS), () -> prompts(with, 2, NEW_TOKENS));
            double bound = ratios.report("prompts and decoding, storing all of it to disk");
            long numStored = with.stats().tier().numChunksExported();
            report.config("chunks_stored_behind", numStored);
            report.config("chunks_dropped_behind", with.stats().tier().store().numChunksDropped());
            check("writing behind: throughput, 95 % bound", numStored == 0 ? Double.NaN : bound, 0.97);
        }
    }

    private void check(String name, double bound, double limit) {
        report.check(name, bound, Op.AT_LEAST, limit);
    }

    private EngineSession session(TierConfig tier, PrefixStore store) {
        long numKvTokens = (long) NUM_DECODING * 1024;
        return new EngineSession(
                settings, new EngineSession.Options(NUM_DECODING, numKvTokens, true, true, tier, store));
    }

    private void decoding() {
        settings.say("tier, overhead: decoding beside a tier that has nothing");
        int numPairs = settings.pick(100, 200); // of each order in which the engines are made
        Ratios ratios = new Ratios();
        try (EngineSession without = decodingSession(null, null, numPairs);
                EngineSession with = decodingSession(UNUSED, new MemoryStore(), numPairs)) {
            alternate(ratios, numPairs, () -> steps(without), () -> steps(with));
        }
        try (EngineSession with = decodingSession(UNUSED, new MemoryStore(), numPairs);
                EngineSession without = decodingSession(null, null, numPairs)) {
            alternate(ratios, numPairs, () -> steps(without), () -> steps(with));
        }
        double bound = ratios.report("decode steps, tier unused");
        check("tier attached but unused: decode step rate, 95 % bound", bound, 0.99);
    }

    private EngineSession decodingSession(TierConfig tier, PrefixStore store, int numPairs) {
        EngineSession session = session(tier, store);
        session.warmUp(workload, NUM_DECODING, 64, WARM_UP_SECONDS);
        for (int i = 0; i < NUM_DECODING; i++) {
            session.submit(workload.request(64, (numPairs + 2) * STEPS_PER_BLOCK));
        }
        session.prefill(NUM_DECODING);
        return session;
    }

    private static double steps(EngineSession session) {
        double sum = 0;
        for (int i = 0; i < STEPS_PER_BLOCK; i++) {
            sum += session.timedStep();
        }
        return sum;
    }

    private double prompts(EngineSession session, int numPrompts, int numNewTokens) {
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < numPrompts; i++) {
            requests.add(workload.request(PROMPT_TOKENS, numNewTokens));
        }
        return session.runToEnd(requests);
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
