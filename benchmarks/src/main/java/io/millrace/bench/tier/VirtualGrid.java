package io.millrace.bench.tier;

import io.millrace.prefix.ChunkKey;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** The cells of the published tables and of all their combinations, run on virtual time and remembered. One thread. */
public final class VirtualGrid {
    public static final List<Double> GBPS = List.of(7.0, 25.0, 32.0, 56.0, 100.0);
    public static final List<Double> COMPUTE_PERCENTS = List.of(12.5, 50.0, 87.5, 100.0);
    public static final List<Integer> LENGTHS = List.of(4096, 8192, 12288, 16384);
    public static final List<Integer> BITS = List.of(16, 8, 4, 3);
    public static final int MAX_NUM_BATCHED_TOKENS = 512;
    public static final int LARGE_NUM_BATCHED_TOKENS = 1024;
    private static final double FLUCTUATING_GBPS = 25;
    private static final double MIXED_GBPS = 56;
    private static final int NUM_SHORT = 22;
    private static final int MIN_SHORT_TOKENS = 32;
    private static final int MAX_SHORT_TOKENS = 448;

    private final Calibration calibration = Calibration.ofPaper();
    private final Map<ChunkKey, byte[][]> chunks = VirtualRun.storedChunks();
    private final Map<VirtualCell, VirtualResult> results = new LinkedHashMap<>();

    /** The setting of a published cell. */
    public static VirtualCell cell(PaperCell published) {
        return new VirtualCell(
                published.model(),
                published.hardware(),
                published.gbps(),
                published.computePercent(),
                published.numTokens(),
                published.bits(),
                MAX_NUM_BATCHED_TOKENS);
    }

    /** Every combination of models, hardware, bandwidths, shares, lengths and bits. */
    public static List<VirtualCell> allCells(int maxNumBatchedTokens) {
        List<VirtualCell> cells = new ArrayList<>();
        for (ServedModel model : ServedModel.values()) {
            for (Hardware hardware : Hardware.values()) {
                for (double gbps : GBPS) {
                    for (double percent : COMPUTE_PERCENTS) {
                        for (int length : LENGTHS) {
                            for (int bits : BITS) {
                                cells.add(new VirtualCell(
                                        model, hardware, gbps, percent, length, bits, maxNumBatchedTokens));
                            }
                        }
                    }
                }
            }
        }
        return cells;
    }

    /** A cell's result; runs it the first time. */
    public VirtualResult result(VirtualCell cell) {
        return results.computeIfAbsent(cell, this::run);
    }

    private VirtualResult run(VirtualCell cell) {
        ComputeCosts costs = costs(cell);
        return VirtualResult.of(cell, costs, VirtualRun.measure(cell, costs, chunks));
    }

    /** What the tokens of a cell's steps cost. */
    public ComputeCosts costs(VirtualCell cell) {
        return calibration.costs(cell.model(), cell.hardware(), cell.numTokens(), cell.computeShare());
    }

    /** The 16k prompt of the 13B model with compute and bandwidth redrawn every 100 ms; another seed, other draws. */
    public VirtualResult fluctuation(Hardware hardware, long seed) {
        VirtualCell cell = new VirtualCell(
                ServedModel.MULTI_HEAD_13B,
                hardware,
                FLUCTUATING_GBPS,
                100,
                LENGTHS.get(LENGTHS.size() - 1),
                16,
                MAX_NUM_BATCHED_TOKENS);
        Fluctuation fluctuation = new Fluctuation(cell, seed);
        ComputeCosts costs = costs(cell);
        VirtualRun.Outcome outcome = VirtualRun.measure(fluctuation, costs, chunks);
        return fluctuation.result(costs, outcome);
    }

    /**
     * The 16k prompt of the 13B model on 2xA100 and a link of 56 Gbps, and right behind it 22 prompts spread evenly over 32 to 448 tokens: the
     * setting in which the published 1.5 s (in order of arrival) and 1.19 s come out by arithmetic.
     */
    public VirtualRun.MixedOutcome mixed(boolean loadingLast) {
        VirtualCell cell = new VirtualCell(
                ServedModel.MULTI_HEAD_13B, Hardware.TWO_A100, MIXED_GBPS, 100, 16384, 16, MAX_NUM_BATCHED_TOKENS);
        ComputeCosts costs = costs(cell);
        // Short prompts have their tokens at the first positions.
        ComputeCosts ofShort = new ComputeCosts(costs.tokenSeconds(), costs.positionSeconds(), costs.tokenSeconds());
        List<Integer> shortTokens = new ArrayList<>();
        for (int i = 0; i < NUM_SHORT; i++) {
            shortTokens.add(MIN_SHORT_TOKENS + i * (MAX_SHORT_TOKENS - MIN_SHORT_TOKENS) / (NUM_SHORT - 1));
        }
        Collections.shuffle(shortTokens, new Random(1));
        return VirtualRun.mixed(cell, ofShort, chunks, shortTokens, loadingLast);
    }

    /** All results so far, in the order in which they were asked for. */
    public List<VirtualResult> results() {
        return List.copyOf(results.values());
    }
}
