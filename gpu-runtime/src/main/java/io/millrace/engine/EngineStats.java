package io.millrace.engine;

import io.millrace.backend.StepTimes;
import io.millrace.prefix.StoreStats;
import io.millrace.prefix.TierStats;
import io.millrace.speculation.SpeculationStats;

/**
 * A consistent look at the engine's counters, published after every step; any thread may read it.
 *
 * @param nanos when they were counted, by the engine's clock
 * @param numRunningSequences sequences that hold blocks
 * @param numWaitingSequences sequences submitted and not running, preempted ones included
 * @param numUsedBlocks KV blocks held by sequences (cached free blocks not counted)
 * @param numBlocks KV blocks in all
 * @param peakUsedBlocks most blocks ever held
 * @param numUsedSlots token slots written in held blocks, shared ones counted once
 * @param numPreemptions preemptions so far
 * @param prefixCacheQueryTokens prompt tokens looked up in the prefix cache
 * @param prefixCacheHitTokens of these found
 * @param numPromptTokens prompt tokens computed (recomputed ones included)
 * @param numGeneratedTokens tokens drawn
 * @param numRestoredTokens output tokens that requests brought along at submission
 * @param numSteps steps run
 * @param numKvBytesRead KV bytes read by attention, blocks read once for several sequences counted once; -1 if the device
 *     does not count them
 * @param times where the steps' time went
 * @param speculation what speculation did
 * @param tier what the prefix tier did
 */
public record EngineStats(
        long nanos,
        int numRunningSequences,
        int numWaitingSequences,
        int numUsedBlocks,
        int numBlocks,
        int peakUsedBlocks,
        long numUsedSlots,
        long numPreemptions,
        long prefixCacheQueryTokens,
        long prefixCacheHitTokens,
        long numPromptTokens,
        long numGeneratedTokens,
        long numRestoredTokens,
        long numSteps,
        long numKvBytesRead,
        StepTimes times,
        SpeculationStats speculation,
        TierStats tier) {

    /** The same with what the prefix store counts by now. */
    EngineStats withStore(StoreStats now) {
        return new EngineStats(
                nanos,
                numRunningSequences,
                numWaitingSequences,
                numUsedBlocks,
                numBlocks,
                peakUsedBlocks,
                numUsedSlots,
                numPreemptions,
                prefixCacheQueryTokens,
                prefixCacheHitTokens,
                numPromptTokens,
                numGeneratedTokens,
                numRestoredTokens,
                numSteps,
                numKvBytesRead,
                times,
                speculation,
                tier.withStore(now));
    }

    public double kvCacheUsage() {
        return numBlocks == 0 ? 0 : (double) numUsedBlocks / numBlocks;
    }
}
