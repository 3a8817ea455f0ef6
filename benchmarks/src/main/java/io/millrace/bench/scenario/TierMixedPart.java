package io.millrace.bench.scenario;

import io.millrace.backend.KvFormat;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.bench.tier.SignTest;
import io.millrace.bench.tier.ThrottledStore;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierConfig;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/**
 * A stored prompt of 4k tokens, then 22 short ones: all in order of arrival, or with the short ones computed first while the
 * stored one loads. Unless a report is wanted, the stored one is a quarter of that, as is the budget of a step, and three are
 * short, which beside it are as much to compute.
 */
final class TierMixedPart {
    private static final int STORED_TOKENS = 4096;
    private static final int QUICK_STORED_TOKENS = 1024;
    private static final int NUM_SHORT = 22;
    private static final int QUICK_NUM_SHORT = 3;
    private static final int MIN_SHORT_TOKENS = 32;
    private static final int MAX_SHORT_TOKENS = 448;
    private static final int MAX_NUM_BATCHED_TOKENS = 512;
    private static final int QUICK_MAX_NUM_BATCHED_TOKENS = 128;
    private static final int NUM_PROMPTS = 3;

    /**
     * Loading alone in terms of computing alone. The short prompts take about as long to compute as the stored one, so with
     * a link as slow as computing, the stored prompt would wait for them twice as long as in order of arrival.
     */
    private static final double IO_OVER_COMPUTE = 0.4;

    private static final TierConfig STORING =
            new TierConfig(KvFormat.AS_COMPUTED, TierConfig.DEFAULT_CHUNK_TOKENS, true, 1L << 30, 60_000);
    private static final TierConfig ADAPTIVE =
            new TierConfig(KvFormat.AS_COMPUTED, TierConfig.DEFAULT_CHUNK_TOKENS, false, 1L << 30, 60_000);

    private final BenchSettings settings;
    private final Report report;
    private final Random random;
    private final int numStoredTokens;
    private final int numShort;
    private final int maxNumBatchedTokens;

    /** Seconds from submission. */
    private record Times(double all, double stored) {}

    TierMixedPart(BenchSettings settings, Report report) {
        this.settings = settings;
        this.report = report;
        random = new Random(settings.seed());
        numStoredTokens = settings.pick(QUICK_STORED_TOKENS, STORED_TOKENS);
        numShort = settings.pick(QUICK_NUM_SHORT, NUM_SHORT);
        maxNumBatchedTokens = settings.pick(QUICK_MAX_NUM_BATCHED_TOKENS, MAX_NUM_BATCHED_TOKENS);
    }

    void run() {
        PrefixStore stored = TierStores.openDisk(settings); // keeps the database for those that come and go
        try {
            run(stored);
        } finally {
            stored.close();
        }
    }

    private void run(PrefixStore kept) {
        Workload workload = new Workload(settings.model().shape().vocabSize(), settings.seed());
        List<int[]> stored = new ArrayList<>();
        for (int i = 0; i < NUM_PROMPTS; i++) {
            stored.add(workload.prompt(numStoredTokens + 1));
        }
        settings.say("tier, mixed: storing prompts of %d tokens", numStoredTokens);
        int numChunks = numStoredTokens / TierConfig.DEFAULT_CHUNK_TOKENS;
        Samples computeSeconds = new Samples();
        double kvBytes;
        try (TierSession storing = session(STORING, TierStores.openDisk(settings))) {
            for (int[] prompt : stored) {
                computeSeconds.add(storing.firstToken(prompt, 1).seconds());
            }
            kvBytes = numChunks * TierStores.awaitChunks(kept, NUM_PROMPTS * numChunks);
        }
        double bytesPerSecond = kvBytes / (IO_OVER_COMPUTE * computeSeconds.median());
        Samples all = new Samples();
        Samples first = new Samples();
        Table table = report.table(
                "mixed",
                "pair",
                "arrival_order_all_s",
                "adaptive_all_s",
                "ratio",
                "arrival_order_stored_s",
                "adaptive_stored_s",
                "stored_ratio");
        try (TierSession arrival = session(ADAPTIVE.inOrderOfService(), throttled(bytesPerSecond));
                TierSession adaptive = session(ADAPTIVE, throttled(bytesPerSecond))) {
            // A load on its own teaches both sides the link's rate and the device's, the rest of what comes is compiled
            // then.
            for (TierSession session : List.of(arrival, adaptive)) {
                session.firstToken(stored.get(0), 1);
                serve(session, 0, stored.get(NUM_PROMPTS - 1), shorts(workload));
            }
            int numPairs = settings.pick(3, 9);
            for (int pair = 1; pair <= numPairs; pair++) {
                settings.say("tier, mixed, pair %d of %d", pair, numPairs);
                int[] prompt = stored.get(pair % NUM_PROMPTS);
                List<int[]> shorts = shorts(workload);
                Times inOrder = null;
                Times adapted = null;
                for (int side = 0; side < 2; side++) {
                    if (side == pair % 2) {
                        inOrder = serve(arrival, pair, prompt, shorts);
                    } else {
                        adapted = serve(adaptive, pair, prompt, shorts);
                    }
                }
                all.add(inOrder.all() / adapted.all());
                first.add(adapted.stored() / inOrder.stored());
                table.add(
                        pair,
                        inOrder.all(),
                        adapted.all(),
                        inOrder.all() / adapted.all(),
                        inOrder.stored(),
                        adapted.stored(),
                        adapted.stored() / inOrder.stored());
            }
        }
        report.config("mixed_io_over_compute", IO_OVER_COMPUTE);
        report.config("mixed_loading_alone_s", kvBytes / bytesPerSecond);
        report.config(
                "mixed",
                "a stored prompt of " + numStoredTokens + " tokens, then " + numShort + " short ones, "
                        + maxNumBatchedTokens + " tokens a step");
        report.table("mixed_median", "of", "median", "at_least", "at_most")
                .add("ratio", all.median(), SignTest.lowerBound(all.values()), SignTest.upperBound(all.values()))
                .add(
                        "stored_ratio",
                        first.median(),
                        SignTest.lowerBound(first.values()),
                        SignTest.upperBound(first.values()));
        report.check(
                "mixed: order of arrival over adaptive, time until all have ended", all.median(), Op.AT_LEAST, 1.2);
        report.check(
                "mixed: adaptive over order of arrival, the stored prompt's first token",
                first.median(),
                Op.AT_MOST,
                1.5);
    }

    private PrefixStore throttled(double bytesPerSecond) {
        return new ThrottledStore(TierStores.openDisk(settings), bytesPerSecond);
    }

    private List<int[]> shorts(Workload workload) {
        List<int[]> shorts = new ArrayList<>();
        for (int i = 0; i < numShort; i++) {
            shorts.add(workload.prompt(MIN_SHORT_TOKENS + i * (MAX_SHORT_TOKENS - MIN_SHORT_TOKENS) / (numShort - 1)));
        }
        Collections.shuffle(shorts, random);
        return shorts;
    }

    private static Times serve(TierSession session, int pair, int[] stored, List<int[]> shorts) {
        List<String> ids = new ArrayList<>();
        long start = System.nanoTime();
        ids.add("stored-" + pair);
        session.submit(ids.get(0), stored);
        for (int i = 0; i < shorts.size(); i++) {
            ids.add("short-" + pair + "-" + i);
            session.submit(ids.get(i + 1), shorts.get(i));
        }
        double[] ends = session.runToEnd(ids, start);
        session.drain();
        return new Times(Arrays.stream(ends).max().orElseThrow(), ends[0]);
    }

    private TierSession session(TierConfig tier, PrefixStore store) {
        int numKvTokens = numStoredTokens + numShort * MAX_SHORT_TOKENS / 4 + 2 * maxNumBatchedTokens;
        return new TierSession(settings, new TierSession.Options(maxNumBatchedTokens, numKvTokens, tier, store));
    }
}
