package io.millrace.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import java.util.OptionalLong;

/**
 * The answers to a {@link PlanRequest}. Times in seconds, sizes in bytes; nothing is rounded.
 *
 * @param request what it follows from
 * @param cost of the model
 * @param capacity of the KV pool
 * @param maxSequences B_max: sequences of the context that fit
 * @param reservedSequences that would fit with contiguous reservation of maxModelLen each
 * @param decode a point per batch size, ascending
 * @param computeBoundBatch smallest batch at which decode turns compute-bound; empty if it never does
 * @param gemmThresholds where each linear layer alone does
 * @param tpot largest batch under the time limit
 * @param prefill of one prompt
 * @param sharing of one prompt among samples
 * @param preemption of one sequence
 * @param tier load against recompute of one prompt
 * @param speculation a point per γ, ascending
 */
public record Plan(
        PlanRequest request,
        ModelCost cost,
        KvCapacity capacity,
        long maxSequences,
        long reservedSequences,
        List<DecodePoint> decode,
        OptionalLong computeBoundBatch,
        List<GemmThreshold> gemmThresholds,
        Tpot tpot,
        Prefill prefill,
        Sharing sharing,
        Preemption preemption,
        Tier tier,
        List<SpeculationPoint> speculation) {

    /** A decode step of a batch. freeChunkTokens: prompt tokens that ride along in the time of its reads. */
    public record DecodePoint(
            long batchSize,
            double kvBytes,
            double memorySeconds,
            double computeSeconds,
            double stepSeconds,
            double tokensPerSecond,
            long freeChunkTokens,
            boolean fits) {
        public boolean computeBound() {
            return computeSeconds > memorySeconds;
        }
    }

    /** Rows from which a linear layer is compute-bound; empty: never. */
    public record GemmThreshold(GemmShape gemm, OptionalDouble rows) {}

    /** Largest batch within limitSeconds per token: by time alone, and by memory too; 0 if none. */
    public record Tpot(double limitSeconds, long batchSizeByTime, long batchSize, double tokensPerSecond) {}

    /** Computing one prompt, and its KV: its size and the time to move it over the link. */
    public record Prefill(
            int promptTokens,
            double gemmSeconds,
            double attentionSeconds,
            double seconds,
            double kvBytes,
            double transferSeconds) {}

    /** n samples of one prompt, with and without sharing its prefill, blocks and reads. Steps are of n samples at their end. */
    public record Sharing(
            int numSamples,
            long prefillTokens,
            long prefillTokensUnshared,
            double prefillSecondsSaved,
            double kvBytes,
            double kvBytesUnshared,
            double stepSeconds,
            double stepSecondsUnshared,
            long numGroups,
            long numGroupsUnshared) {}

    /** Getting one preempted sequence back. */
    public record Preemption(
            int numTokens,
            double swapSecondsOneWay,
            double recomputeGemmSeconds,
            double recomputeSeconds,
            PreemptionCost.Restore cheaper) {}

    /** One stored prompt: loaded, computed, both from two ends; and where loading begins to win. */
    public record Tier(
            int numTokens,
            double loadSeconds,
            double computeSeconds,
            double bothSeconds,
            long computedTokensOfBoth,
            OptionalLong crossoverTokens,
            double alwaysLoadBytesPerSecond) {}

    /** Drafting γ tokens: with free verification, and by the roofline at each batch of the decode points. */
    public record SpeculationPoint(
            int numDraftTokens, double tokensPerPass, double speedup, List<Double> speedupsByBatch) {
        public SpeculationPoint {
            speedupsByBatch = List.copyOf(speedupsByBatch);
        }
    }

    public Plan {
        decode = List.copyOf(decode);
        gemmThresholds = List.copyOf(gemmThresholds);
        speculation = List.copyOf(speculation);
    }

    /** Works everything out; pure. */
    public static Plan of(PlanRequest request) {
        ModelCost cost = ModelCost.of(request.shape(), request.precision());
        Roofline roofline = new Roofline(cost, request.device().rates());
        KvCapacity capacity = new KvCapacity(request.kvCache().bytes(), cost.kvBytesPerToken(), request.blockSize());
        long maxSequences = capacity.numSequences(request.contextTokens());
        List<DecodePoint> decode = new ArrayList<>();
        for (long batchSize : batchSizes(request, maxSequences)) {
            decode.add(decodePoint(roofline, batchSize, request.contextTokens(), maxSequences));
        }
        return new Plan(
                request,
                cost,
                capacity,
                maxSequences,
                capacity.numReservedSequences(request.maxModelLen()),
                decode,
                roofline.computeBoundBatch(request.contextTokens()),
                gemmThresholds(request, roofline),
                tpot(request, roofline, maxSequences),
                prefill(request, roofline),
                sharing(request, roofline, capacity),
                preemption(request, roofline),
                tier(request, roofline),
                speculation(request, roofline, decode));
    }

    public Roofline roofline() {
        return new Roofline(cost, request.device().rates());
    }

    /** γ with the best speed at a batch of the given index among the decode points, 0 for none, as the engine would choose. */
    public int bestNumDraftTokens(int batchIndex) {
        int best = 0;
        double bestSpeedup = 1;
        for (SpeculationPoint point : speculation) {
            double speedup = point.speedupsByBatch().get(batchIndex);
            if (speedup > bestSpeedup) {
                best = point.numDraftTokens();
                bestSpeedup = speedup;
            }
        }
        return best;
    }

    private static List<Long> batchSizes(PlanRequest request, long maxSequences) {
        List<Long> sizes = new ArrayList<>();
        if (request.batchSizes().isEmpty()) {
            for (long size = 1; size < maxSequences; size *= 8) {
                sizes.add(size);
            }
            sizes.add(Math.max(1, maxSequences));
        } else {
            request.batchSizes().forEach(size -> sizes.add((long) size));
        }
        return sizes;
    }

    private static DecodePoint decodePoint(Roofline roofline, long batchSize, int contextTokens, long maxSequences) {
        return new DecodePoint(
                batchSize,
                batchSize * contextTokens * roofline.cost().kvBytesPerToken(),
                roofline.memorySeconds(batchSize, contextTokens),
                roofline.computeSeconds(batchSize, contextTokens, 1),
                roofline.stepSeconds(batchSize, contextTokens),
                roofline.tokensPerSecond(batchSize, contextTokens),
                roofline.freeChunkTokens(batchSize, contextTokens),
                batchSize <= maxSequences);
    }

    private static List<GemmThreshold> gemmThresholds(PlanRequest request, Roofline roofline) {
        return request.shape().gemms().stream()
                .map(gemm -> new GemmThreshold(gemm, roofline.computeBoundRows(gemm, request.precision())))
                .toList();
    }

    private static Tpot tpot(PlanRequest request, Roofline roofline, long maxSequences) {
        long byTime = roofline.largestBatch(request.contextTokens(), request.tpotLimitSeconds());
        long batchSize = Math.min(byTime, maxSequences);
        double tokensPerSecond = batchSize == 0 ? 0 : roofline.tokensPerSecond(batchSize, request.contextTokens());
        return new Tpot(request.tpotLimitSeconds(), byTime, batchSize, tokensPerSecond);
    }

    private static Prefill prefill(PlanRequest request, Roofline roofline) {
        int numTokens = request.promptTokens();
        double kvBytes = numTokens * roofline.cost().kvBytesPerToken();
        return new Prefill(
                numTokens,
                roofline.prefillGemmSeconds(numTokens),
                roofline.prefillAttentionSeconds(0, numTokens),
                roofline.prefillSeconds(numTokens),
                kvBytes,
                kvBytes / request.device().linkBytesPerSecond());
    }

    private static Sharing sharing(PlanRequest request, Roofline roofline, KvCapacity capacity) {
        int n = request.numSamples();
        long prompt = request.promptTokens();
        long output = request.outputTokens();
        ModelCost cost = roofline.cost();
        double kvBytes = (prompt + n * output) * cost.kvBytesPerToken();
        double computeSeconds = roofline.computeSeconds(n, prompt + output, 1);
        double sharedReadSeconds =
                (cost.weightBytes() + kvBytes) / roofline.rates().memoryBytesPerSecond();
        return new Sharing(
                n,
                prompt,
                n * prompt,
                (n - 1) * roofline.prefillSeconds(prompt),
                kvBytes,
                n * (prompt + output) * cost.kvBytesPerToken(),
                Math.max(sharedReadSeconds, computeSeconds),
                roofline.stepSeconds(n, prompt + output),
                capacity.numGroups(prompt, output, n),
                capacity.numSequences(prompt + output) / n);
    }

    private static Preemption preemption(PlanRequest request, Roofline roofline) {
        PreemptionCost cost = new PreemptionCost(roofline, request.device().linkBytesPerSecond());
        int numTokens = request.preemptedTokens();
        return new Preemption(
                numTokens,
                cost.swapSecondsOneWay(numTokens),
                roofline.prefillGemmSeconds(numTokens),
                cost.recomputeSeconds(numTokens),
                cost.cheaper(numTokens));
    }

    private static Tier tier(PlanRequest request, Roofline roofline) {
        TierCost cost = new TierCost(roofline, request.diskBytesPerSecond());
        int numTokens = request.promptTokens();
        return new Tier(
                numTokens,
                cost.loadSeconds(numTokens),
                cost.computeSeconds(0, numTokens),
                cost.bothSeconds(numTokens),
                cost.meetingToken(numTokens),
                cost.crossoverTokens(),
                cost.alwaysLoadBytesPerSecond());
    }

    private static List<SpeculationPoint> speculation(
            PlanRequest request, Roofline roofline, List<DecodePoint> decode) {
        SpeculationCost cost = request.speculation();
        List<SpeculationPoint> points = new ArrayList<>();
        for (int gamma : request.numDraftTokens()) {
            List<Double> byBatch = decode.stream()
                    .map(point -> cost.speedup(gamma, roofline, point.batchSize(), request.contextTokens()))
                    .toList();
            points.add(new SpeculationPoint(gamma, cost.tokensPerPass(gamma), cost.speedup(gamma), byBatch));
        }
        return points;
    }
}
