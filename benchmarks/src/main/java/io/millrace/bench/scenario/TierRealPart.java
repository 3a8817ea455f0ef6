package io.millrace.bench.scenario;

import io.millrace.backend.KvFormat;
import io.millrace.bench.model.BenchModel;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Plot;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.bench.tier.IdealMeeting;
import io.millrace.bench.tier.SignTest;
import io.millrace.bench.tier.ThrottledStore;
import io.millrace.plan.ModelShape;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierConfig;
import java.util.ArrayList;
import java.util.List;

/**
 * The first token of stored prompts on this machine, with a token bucket in front of the store on local disk: loading and
 * computing together against computing alone, in alternating turns, and against loading alone: as measured in the same
 * turns where that is the better of the two, else what the bucket lets through, which is a little less.
 */
final class TierRealPart {
    private static final int CHUNK_TOKENS = TierConfig.DEFAULT_CHUNK_TOKENS;
    private static final int MAX_NUM_BATCHED_TOKENS = 256;
    private static final int NUM_PROMPTS = 3; // with a pool for one, what was two prompts ago has left memory
    private static final int NUM_PAIRS = 9; // whose bound is the second smallest: one bad turn is forgiven
    private static final int NUM_PAIRS_FULL = 15; // the fourth smallest
    private static final int NUM_WARM_UPS = 2;
    private static final double WARM_UP_SECONDS = 5;

    // From slow links to fast ones: where computing is the better side, it is run right before or after.
    private static final double[] ALL_RATIOS = {4, 2, 1, 0.5, 0.25};
    private static final double[] SOME_RATIOS = {4, 1, 0.25};
    private static final TierConfig TIER = new TierConfig(KvFormat.AS_COMPUTED, CHUNK_TOKENS, false, 1L << 30, 60_000);
    private static final TierConfig STORING =
            new TierConfig(KvFormat.AS_COMPUTED, CHUNK_TOKENS, true, 1L << 30, 60_000);

    private final BenchSettings settings;
    private final Report report;
    private final String name;
    private final Table table;
    private final List<Cell> cells = new ArrayList<>();

    /** What is measured together: cells that differ in the link alone take turns with one run of computing alone. */
    private record Group(int numTokens, double computeShare, double[] ratios) {
        int numChunks() {
            return numTokens / CHUNK_TOKENS;
        }
    }

    /** A cell's turns. */
    private static final class Cell {
        final Group group;
        final double aimedRatio;
        final double bytesPerSecond;
        final double ioSeconds;
        final boolean measuresLoading;
        final Samples seconds = new Samples();
        final Samples shareOfLimit = new Samples();
        final Samples overIdeal = new Samples();
        final Samples overIo = new Samples();
        final Samples overCompute = new Samples();
        final Samples overBetter = new Samples();
        final Samples ratio = new Samples();
        final Samples loadedShare = new Samples();

        Cell(Group group, double aimedRatio, double computeSeconds, double kvBytes) {
            this.group = group;
            this.aimedRatio = aimedRatio;
            this.ioSeconds = aimedRatio * computeSeconds;
            this.bytesPerSecond = kvBytes / ioSeconds;
            // Where others are in every step, an engine that computes slowly would be slow for them, too.
            this.measuresLoading = aimedRatio < 1 && group.computeShare == 1;
        }

        /**
         * Takes a turn in, and the runs of computing and of loading alone beside it.
         *
         * @param loaded null where loading alone is not measured
         */
        void add(
                TierSession.FirstToken together,
                TierSession.FirstToken computed,
                TierSession.FirstToken loaded,
                double lastStepSeconds) {
            int numChunks = group.numChunks();
            double[] compute = new double[numChunks + 1];
            double[] io = new double[numChunks + 1];
            for (int i = 0; i <= numChunks; i++) {
                compute[i] = computed.curve().secondsUntil(i * CHUNK_TOKENS);
                io[i] = i * ioSeconds / numChunks;
            }
            double lastToken = computed.seconds() - compute[numChunks];
            double ideal =
                    IdealMeeting.of(compute, io, lastStepSeconds, lastToken).seconds();
            double chunk = Math.max(io[1], computed.seconds() / numChunks);
            seconds.add(together.seconds());
            overIdeal.add(together.seconds() / ideal);
            shareOfLimit.add(together.seconds() / Math.max(1.08 * ideal, ideal + chunk));
            double ioAlone = loaded == null ? ioSeconds + lastStepSeconds : loaded.seconds();
            overIo.add(ioAlone / together.seconds());
            overCompute.add(computed.seconds() / together.seconds());
            overBetter.add(Math.min(ioAlone, computed.seconds()) / together.seconds());
            ratio.add(ioAlone / computed.seconds());
            loadedShare.add((double) together.numTierTokens() / group.numTokens());
        }
    }

    private TierRealPart(String name, BenchSettings settings, Report report) {
        this.name = name;
        this.settings = settings;
        this.report = report;
        table = report.table(
                name,
                "model",
                "tokens",
                "compute_percent",
                "aimed_io_over_compute",
                "io_over_compute",
                "mb_per_s",
                "pairs",
                "seconds",
                "over_ideal",
                "share_of_limit",
                "over_io",
                "over_compute",
                "over_better_at_least",
                "loaded_share");
    }

    static TierRealPart ofModel(BenchSettings settings, Report report) {
        return new TierRealPart("real", settings, report);
    }

    /** On the same model with a KV head for every query head. */
    static TierRealPart ofMultiHeadTwin(BenchSettings settings, Report report) {
        ModelShape shape = settings.model().shape();
        ModelShape multiHead = new ModelShape(
                shape.name() + "-multi-head",
                shape.vocabSize(),
                shape.hiddenSize(),
                shape.numLayers(),
                shape.numQueryHeads(),
                shape.numQueryHeads(),
                shape.headDim(),
                shape.intermediateSize(),
                shape.tiedEmbeddings(),
                shape.numVectorParametersPerLayer(),
                shape.maxPositionEmbeddings());
        BenchModel twin = BenchModel.random(multiHead, settings.home().resolveSibling("bench-models"));
        return new TierRealPart("twin", settings.withModel(twin), report);
    }

    void run() {
        report.config("real_token_budget", MAX_NUM_BATCHED_TOKENS);
        report.config("real_bounds", "sign test of the median of the pairs, 95 % each");
        for (Group group : groups()) {
            measure(group);
        }
        checks();
        report.plot(Plot.of(
                "Speedup in cells as listed under " + name
                        + ": over loading alone, over computing alone, times the ideal",
                numbered(),
                "cell",
                "over_io",
                "over_compute",
                "over_ideal"));
    }

    private List<Group> groups() {
        List<Group> groups = new ArrayList<>();
        if (!settings.full()) {
            groups.add(new Group(1024, 1, SOME_RATIOS));
            return groups;
        }
        groups.add(new Group(1024, 1, ALL_RATIOS));
        groups.add(new Group(1024, 0.5, SOME_RATIOS));
        groups.add(new Group(2048, 1, ALL_RATIOS));
        groups.add(new Group(2048, 0.5, SOME_RATIOS));
        return groups;
    }

    private void measure(Group group) {
        settings.say(
                "tier, %s: %d tokens, %.0f %% of the compute: storing prompts",
                settings.model().shape().name(), group.numTokens(), 100 * group.computeShare());
        Workload workload = new Workload(settings.model().shape().vocabSize(), settings.seed());
        List<int[]> prompts = new ArrayList<>();
        for (int i = 0; i < NUM_PROMPTS; i++) {
            prompts.add(workload.prompt(group.numTokens() + 1));
        }
        PrefixStore stored = TierStores.openDisk(settings); // keeps the database for those that come and go
        List<TierSession> sessions = new ArrayList<>();
        try {
            double kvBytes = group.numChunks() * store(group, prompts, stored);
            TierSession computing = session(group, null, null);
            sessions.add(computing);
            double aloneSeconds = computeAloneSeconds(computing, group, prompts);
            List<Cell> measured = new ArrayList<>();
            for (double ratio : group.ratios()) {
                Cell cell = new Cell(group, ratio, aloneSeconds, kvBytes);
                measured.add(cell);
                TierSession loading =
                        session(group, TIER, new ThrottledStore(TierStores.openDisk(settings), cell.bytesPerSecond));
                sessions.add(loading);
                warmUp(loading, group, prompts);
            }
            for (Cell cell : measured) {
                if (cell.measuresLoading) {
                    TierSession loading =
                            loadsOnly(group, new ThrottledStore(TierStores.openDisk(settings), cell.bytesPerSecond));
                    sessions.add(loading);
                    warmUp(loading, group, prompts);
                }
            }
            turns(group, prompts, sessions, measured);
            cells.addAll(measured);
            measured.forEach(this::addRow);
        } finally {
            sessions.forEach(TierSession::close);
            stored.close();
        }
    }

    private static void warmUp(TierSession loading, Group group, List<int[]> prompts) {
        for (int i = 0; i < NUM_WARM_UPS; i++) {
            loading.firstToken(prompts.get(i % NUM_PROMPTS), group.computeShare());
        }
    }

    /** What computing alone takes, warmed up; ends with the last of the prompts. */
    private static double computeAloneSeconds(TierSession computing, Group group, List<int[]> prompts) {
        long start = System.nanoTime();
        Samples alone;
        do {
            alone = new Samples();
            for (int[] prompt : prompts) {
                alone.add(computing.firstToken(prompt, group.computeShare()).seconds());
            }
        } while (System.nanoTime() - start < WARM_UP_SECONDS * 1e9);
        return alone.median();
    }

    private void turns(Group group, List<int[]> prompts, List<TierSession> sessions, List<Cell> own) {
        int numPairs = settings.full() ? NUM_PAIRS_FULL : NUM_PAIRS;
        for (int turn = 0; turn < numPairs; turn++) {
            settings.say("tier, turn %d of %d", turn + 1, numPairs);
            // The warm-up ended with prompt 1 (computing: 2), so that what comes next is the longest gone.
            int[] prompt = prompts.get((turn + NUM_WARM_UPS) % NUM_PROMPTS);
            TierSession.FirstToken[] tokens = new TierSession.FirstToken[sessions.size()];
            for (int i = 0; i < tokens.length; i++) {
                int place = turn % 2 == 0 ? i : tokens.length - 1 - i;
                int[] shown = place == 0 ? prompts.get((turn + NUM_WARM_UPS + 1) % NUM_PROMPTS) : prompt;
                tokens[place] = sessions.get(place).firstToken(shown, group.computeShare());
            }
            double lastStep = lastStepSeconds(sessions.get(0), group);
            int nextLoaded = 1 + own.size();
            for (int i = 0; i < own.size(); i++) {
                TierSession.FirstToken loaded = own.get(i).measuresLoading ? tokens[nextLoaded++] : null;
                if (loaded != null && loaded.numTierTokens() < group.numTokens()) {
                    settings.say(
                            "tier: of a prompt to be loaded alone, %d of %d tokens were loaded; what the bucket lets through counts",
                            loaded.numTierTokens(), group.numTokens());
                    loaded = null;
                }
                own.get(i).add(tokens[i + 1], tokens[0], loaded, lastStep);
            }
        }
    }

    /** A step with one token of a prompt, and what others have in every step. */
    private double lastStepSeconds(TierSession session, Group group) {
        Workload single = new Workload(settings.model().shape().vocabSize(), settings.seed());
        return session.firstToken(single.prompt(1), group.computeShare()).seconds();
    }

    /** Has an engine compute and store the prompts; returns the bytes of a chunk. */
    private double store(Group group, List<int[]> prompts, PrefixStore stored) {
        try (TierSession storing = session(group, STORING, TierStores.openDisk(settings))) {
            for (int[] prompt : prompts) {
                storing.firstToken(prompt, 1);
            }
            return TierStores.awaitChunks(stored, NUM_PROMPTS * group.numChunks());
        }
    }

    private TierSession session(Group group, TierConfig tier, PrefixStore store) {
        return new TierSession(
                settings, new TierSession.Options(MAX_NUM_BATCHED_TOKENS, numKvTokens(group), tier, store));
    }

    private TierSession loadsOnly(Group group, PrefixStore store) {
        return new TierSession(
                settings, new TierSession.Options(MAX_NUM_BATCHED_TOKENS, numKvTokens(group), TIER, store, true));
    }

    private static int numKvTokens(Group group) {
        return group.numTokens() + MAX_NUM_BATCHED_TOKENS + 8 * EngineSession.BLOCK_SIZE;
    }

    private void addRow(Cell cell) {
        table.add(
                settings.model().shape().name(),
                cell.group.numTokens(),
                100 * cell.group.computeShare(),
                cell.aimedRatio,
                cell.ratio.median(),
                cell.bytesPerSecond / 1e6,
                cell.seconds.count(),
                cell.seconds.median(),
                cell.overIdeal.median(),
                cell.shareOfLimit.median(),
                cell.overIo.median(),
                cell.overCompute.median(),
                SignTest.lowerBound(cell.overBetter.values()),
                cell.loadedShare.median());
    }

    private void checks() {
        double worstOfLimit = cells.stream()
                .mapToDouble(cell -> cell.shareOfLimit.median())
                .max()
                .orElse(Double.NaN);
        double leastOverBetter = cells.stream()
                .mapToDouble(cell -> SignTest.lowerBound(cell.overBetter.values()))
                .min()
                .orElse(Double.NaN);
        double leastSpeedup = cells.stream()
                .filter(cell -> cell.group.numTokens() == 2048)
                .filter(cell -> cell.ratio.median() >= 0.85 && cell.ratio.median() <= 1.2)
                .mapToDouble(cell -> Math.min(cell.overIo.median(), cell.overCompute.median()))
                .min()
                .orElse(Double.NaN);
        String what = name + ", worst of " + cells.size() + " cells: ";
        report.check(what + "median time over max(1.08 ideal, ideal + a chunk)", worstOfLimit, Op.AT_MOST, 1);
        report.check(what + "speedup over the better resource alone, 95 % bound", leastOverBetter, Op.AT_LEAST, 0.98);
        report.check(
                name + ", 2,048 tokens, loading as long as computing: speedup over either alone"
                        + (settings.full() ? "" : " (prompts of that length: --full)"),
                leastSpeedup,
                Op.AT_LEAST,
                1.7);
    }

    private Table numbered() {
        Table numbered = new Table("plot", "cell", "over_io", "over_compute", "over_ideal");
        for (int i = 0; i < cells.size(); i++) {
            Cell cell = cells.get(i);
            numbered.add(i + 1, cell.overIo.median(), cell.overCompute.median(), cell.overIdeal.median());
        }
        return numbered;
    }
}
