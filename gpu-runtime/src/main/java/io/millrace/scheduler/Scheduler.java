package io.millrace.scheduler;

import io.millrace.kvcache.BlockManager;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * Decides what each step computes. There is no prefill or decode mode (unified scheduling, vLLM v1): every running sequence
 * has tokens that are not computed yet, and a step hands out a budget of tokens in this order:
 *
 * <ol>
 *   <li>running decodes (one token each, and behind it the tokens that were proposed for it, as far as half of what the
 *       decodes leave of the budget and blocks that nobody else needs go),
 *   <li>prompts and recomputations, running ones and admitted ones, by priority and arrival, in chunks as the budget allows,
 *   <li>prompts whose prefix is being loaded from a lower tier, so that loads soak up idle time: only as far as the tier says
 *       (Cake's adaptive order; {@link LowerTier}).
 * </ol>
 *
 * <p>Blocks: a sequence is admitted when the blocks of all its tokens are there and one spare for every running sequence, so
 * that preemption is the exception. A running sequence that finds no free block takes the blocks of the last one in the
 * order of service (lowest priority, newest request, last sample): all of that one's blocks, which waits again and is
 * recomputed. Service is in that same order, so a victim was never given tokens in the step that preempts it, and the first
 * in order always goes on: every request ends.
 *
 * <p>Samples of a request: the first computes the prompt while the others wait; the step that completes the prompt draws the
 * first token of as many as there is room for, and these take the prompt's blocks by reference. The rest follow one by one as
 * room appears, from cached or shared blocks.
 *
 * <p>Engine thread only.
 */
public final class Scheduler {
    private final SchedulerConfig config;
    private final BlockManager blocks;
    private final LowerTier tier;
    private final List<SequenceGroup> groups = new ArrayList<>(); // in order of service
    private final List<Sequence> running = new ArrayList<>(); // in order of service
    private final ScheduledBatch batch = new ScheduledBatch();
    private final int maxNumRunning;
    private int budget;
    private int proposalBudget;
    private int numPrefillsLeft; // running sequences with more than one token to compute, not yet served in this step
    private int numWaiting;
    private int numForking; // sequences that start to run after this step
    private boolean copiesMade = true;
    private boolean copiesCarriedOver; // copies of a step that failed as a whole are made by this one
    private long numPreemptions;
    private long numQueriedTokens;
    private long numHitTokens;

    /** Without a tier below the block pool. */
    public Scheduler(SchedulerConfig config, BlockManager blocks) {
        this(config, blocks, LowerTier.NONE);
    }

    public Scheduler(SchedulerConfig config, BlockManager blocks, LowerTier tier) {
        this.tier = tier;
        this.config = config;
        this.blocks = blocks;
        // More running sequences than the budget has tokens could not all decode in one step.
        maxNumRunning = Math.min(config.maxNumSeqs(), config.maxNumBatchedTokens());
    }

    /** Takes a request's group of waiting sequences. */
    public void add(SequenceGroup group) {
        int place = Collections.binarySearch(groups, group);
        if (place >= 0) {
            throw new IllegalArgumentException(group + " is scheduled already");
        }
        groups.add(-place - 1, group);
        numWaiting += group.numWaiting();
    }

    /**
     * Plans a step. The batch is valid until the next call; it is empty only when there is nothing to do, or all that there is
     * waits for a lower tier.
     */
    public ScheduledBatch schedule() {
        copiesCarriedOver = !copiesMade && batch.numCopies() > 0;
        batch.clear(copiesMade);
        copiesMade = false;
        budget = config.maxNumBatchedTokens();
        proposalBudget = Math.max(0, budget - running.size()) / 2;
        numForking = 0;
        long preemptionsBefore = numPreemptions;
        serveRunning();
        boolean mayAdmit = numPreemptions == preemptionsBefore;
        if (!tier.isLoading()) {
            mayAdmit = servePrefills(mayAdmit, false);
            servePrefills(mayAdmit, true);
            return batch;
        }
        PromptLimits limits = tier.promptLimits(budget, numOtherPromptTokens(budget), batch);
        int numReserved = limits.maxTokens() - limits.maxOtherTokens();
        budget = limits.maxOtherTokens();
        mayAdmit = servePrefills(mayAdmit, false);
        budget += numReserved;
        servePrefills(mayAdmit, true);
        return batch;
    }

    /** Tokens of prompts that are not being loaded and wait to be computed, as far as they fit into so many. */
    public int numOtherPromptTokens(int maxTokens) {
        return numOtherPromptTokens(groups.size(), maxTokens);
    }

    /** The same of a group, and of those that are served before it. */
    public int numPromptTokensUpTo(SequenceGroup last, int maxTokens) {
        return numOtherPromptTokens(Collections.binarySearch(groups, last) + 1, maxTokens);
    }

    private int numOtherPromptTokens(int numGroups, int maxTokens) {
        int count = 0;
        for (int g = 0; g < numGroups && count < maxTokens; g++) {
            SequenceGroup group = groups.get(g);
            if (group.isLoadingPrefix()) {
                continue;
            }
            boolean running = false;
            for (Sequence sequence : group.sequences()) {
                running |= sequence.isRunning();
                count +=
                        sequence.isRunning() && sequence.numUncomputedTokens() > 1 ? sequence.numUncomputedTokens() : 0;
            }
            count += running ? 0 : group.sequences().get(0).numTokens();
        }
        return Math.min(maxTokens, count);
    }

    /** Takes the proposals of a sequence at its place in the planned batch out; the rest of the batch stays valid. */
    public void dropProposals(int place) {
        ScheduledSequence scheduled = batch.sequences().get(place);
        batch.dropProposals(place);
        blocks.truncate(scheduled.sequence().blockTable(), scheduled.sequence().numTokens());
    }

    /** Takes a group that faulted out of the planned batch and out of the scheduler; the rest of the batch stays valid. */
    public void removeFromBatch(SequenceGroup group) {
        batch.remove(group);
        remove(group);
    }

    /**
     * Notes that the batch was computed: progress, blocks that can be found from now on, forks. Proposed tokens were accepted
     * before; the KV of those that were not is forgotten. Drawn tokens are appended afterwards.
     */
    public void markComputed(ScheduledBatch computed) {
        copiesMade = true;
        List<ScheduledSequence> sequences = computed.sequences();
        for (int i = 0; i < sequences.size(); i++) {
            ScheduledSequence scheduled = sequences.get(i);
            Sequence sequence = scheduled.sequence();
            int end = Math.min(scheduled.endPosition(), sequence.numTokens());
            sequence.advance(end - scheduled.firstPosition());
            blocks.markComputed(
                    sequence.blockTable(),
                    sequence.tokenIds(),
                    scheduled.firstPosition(),
                    end,
                    sequence.group().salt());
            if (end < scheduled.endPosition()) {
                blocks.truncate(sequence.blockTable(), end);
            }
            for (Sequence fork : scheduled.forks()) {
                blocks.fork(fork.blockTable(), sequence.blockTable(), scheduled.endPosition());
                start(fork, scheduled.endPosition());
            }
        }
    }

    /**
     * Whether KV may be written into the blocks of running sequences between steps: not while a block may be the destination
     * of a copy that a failed step left to the next.
     */
    public boolean mayImport() {
        return !copiesCarriedOver && (copiesMade || batch.numCopies() == 0);
    }

    /** Notes that a running sequence's KV up to a position is in its blocks, though no step computed it. */
    public void skipTo(Sequence sequence, int position) {
        int first = sequence.numComputedTokens();
        sequence.advance(position - first);
        blocks.markComputed(
                sequence.blockTable(),
                sequence.tokenIds(),
                first,
                position,
                sequence.group().salt());
    }

    /** Ends a sequence and frees its blocks. */
    public void finish(Sequence sequence) {
        SequenceGroup group = sequence.group();
        if (sequence.isRunning()) {
            blocks.free(sequence.blockTable());
            running.remove(Collections.binarySearch(running, sequence));
        } else if (sequence.isWaiting()) {
            numWaiting--;
        }
        sequence.finish();
        if (group.sequences().isEmpty()) {
            groups.remove(Collections.binarySearch(groups, group));
        }
    }

    /** Ends all sequences of a group. */
    public void remove(SequenceGroup group) {
        for (Sequence sequence : List.copyOf(group.sequences())) {
            finish(sequence);
        }
    }

    public boolean hasUnfinished() {
        return !groups.isEmpty();
    }

    /** Sequences that hold blocks, in order of service. */
    public List<Sequence> running() {
        return Collections.unmodifiableList(running);
    }

    public int numRunning() {
        return running.size();
    }

    public int numWaiting() {
        return numWaiting;
    }

    public long numPreemptions() {
        return numPreemptions;
    }

    /** Prompt tokens looked up in the prefix cache. */
    public long numQueriedTokens() {
        return numQueriedTokens;
    }

    /** Prompt tokens found in the prefix cache. */
    public long numHitTokens() {
        return numHitTokens;
    }

    /** Makes every running sequence's next tokens writable, in order of service, and gives decodes their token. */
    private void serveRunning() {
        numPrefillsLeft = 0;
        for (int i = 0; i < running.size(); i++) {
            Sequence sequence = running.get(i);
            if (!extendOrPreempt(sequence)) {
                break; // it was the last itself
            }
            if (sequence.numUncomputedTokens() > 1) {
                numPrefillsLeft++;
            } else if (budget > 0) {
                if (sequence.numProposedTokens() > 0) {
                    fitProposals(sequence, running.size() - i);
                }
                give(sequence);
            }
        }
    }

    /** Cuts a decode's proposals to what the step has room for; they take nobody's block and nobody's token. */
    private void fitProposals(Sequence sequence, int numSpareBlocks) {
        int count = Math.min(sequence.numProposedTokens(), proposalBudget);
        count = tier.endPosition(sequence, sequence.numTokens() + count, batch) - sequence.numTokens();
        while (count > 0 && !blocks.tryGrow(sequence.blockTable(), sequence.numTokens() + count, numSpareBlocks)) {
            count--;
        }
        sequence.keepProposals(count);
        proposalBudget -= count;
    }

    private boolean extendOrPreempt(Sequence sequence) {
        int first = sequence.numComputedTokens();
        int result;
        while ((result = blocks.extend(sequence.blockTable(), first, sequence.numTokens()))
                == BlockManager.NO_FREE_BLOCK) {
            Sequence victim = running.remove(running.size() - 1);
            preempt(victim);
            if (victim == sequence) {
                return false;
            }
        }
        if (result != BlockManager.WRITABLE) {
            batch.addCopy(result, sequence.blockTable().block(first / blocks.blockSize()));
        }
        return true;
    }

    private void preempt(Sequence victim) {
        tier.preempting(victim);
        blocks.free(victim.blockTable());
        victim.preempt();
        numWaiting++;
        numPreemptions++;
    }

    /** Serves prompts in order of service; returns whether admission may go on. */
    private boolean servePrefills(boolean mayAdmitAtFirst, boolean loading) {
        boolean mayAdmit = mayAdmitAtFirst;
        // A prefix that is being loaded needs blocks, and no budget.
        boolean needsBudget = config.loadingLast() && !loading;
        for (int g = 0; g < groups.size() && (budget > 0 || !needsBudget) && (mayAdmit || numPrefillsLeft > 0); g++) {
            SequenceGroup group = groups.get(g);
            if ((config.loadingLast() && group.isLoadingPrefix()) == loading) {
                servePrefills(group);
                mayAdmit = mayAdmit && admit(group);
            }
        }
        return mayAdmit;
    }

    private void servePrefills(SequenceGroup group) {
        if (numPrefillsLeft == 0) {
            return;
        }
        List<Sequence> sequences = group.sequences();
        for (int i = 0; i < sequences.size() && budget > 0; i++) {
            Sequence sequence = sequences.get(i);
            if (sequence.isRunning() && sequence.numUncomputedTokens() > 1) {
                numPrefillsLeft--;
                give(sequence);
            }
        }
    }

    /** Admits waiting sequences of a group while there is room; returns false when the next one found none. */
    private boolean admit(SequenceGroup group) {
        List<Sequence> sequences = group.sequences();
        for (int i = 0; i < sequences.size() && group.numWaiting() > 0; i++) {
            Sequence sequence = sequences.get(i);
            if (!sequence.isWaiting() || group.isLoadingPrefix() && !tier.mayAdmit(sequence)) {
                continue;
            }
            Sequence sibling = mostAdvanced(group);
            if (sibling != null && sibling.numComputedTokens() < group.numPromptTokens()) {
                return true; // the prompt is being computed; the others fork when it is complete
            }
            if (budget == 0 && !group.isLoadingPrefix()
                    || running.size() + numForking >= maxNumRunning
                    || !allocate(sequence, sibling)) {
                return false;
            }
            tier.admitted(sequence);
            give(sequence);
        }
        return true;
    }

    private static Sequence mostAdvanced(SequenceGroup group) {
        Sequence most = null;
        if (group.numWaiting() < group.sequences().size()) {
            for (Sequence sequence : group.sequences()) {
                if (sequence.isRunning() && (most == null || sequence.numComputedTokens() > most.numComputedTokens())) {
                    most = sequence;
                }
            }
        }
        return most;
    }

    private boolean allocate(Sequence sequence, Sequence sibling) {
        SequenceGroup group = sequence.group();
        int spare = running.size() + numForking;
        boolean readCache = !group.needsPromptScores();
        int numCached;
        if (sibling != null && !blocks.prefixCaching()) {
            numCached = blocks.allocateBeside(
                    sequence.blockTable(), sequence.numTokens(), sibling.blockTable(), group.numPromptTokens(), spare);
        } else {
            numCached = blocks.allocate(
                    sequence.blockTable(), sequence.tokenIds(), sequence.numTokens(), group.salt(), readCache, spare);
        }
        if (numCached == BlockManager.NO_FREE_BLOCK) {
            return false;
        }
        int numCachedPrompt = Math.min(numCached, group.numPromptTokens());
        if (readCache && blocks.prefixCaching()) {
            numQueriedTokens += group.numPromptTokens();
            numHitTokens += numCachedPrompt;
        }
        if (group.numCachedTokens() < 0) {
            group.setNumCachedTokens(numCachedPrompt);
        }
        start(sequence, numCached);
        return true;
    }

    private void start(Sequence sequence, int numComputedTokens) {
        numWaiting -= sequence.isWaiting() ? 1 : 0;
        sequence.run(numComputedTokens);
        running.add(-Collections.binarySearch(running, sequence) - 1, sequence);
    }

    /** Gives a sequence as many tokens as it wants, the budget has and the tier below does not bring. */
    private void give(Sequence sequence) {
        SequenceGroup group = sequence.group();
        int wanted = sequence.numUncomputedTokens() + sequence.numProposedTokens();
        int end = sequence.numComputedTokens() + Math.min(budget, wanted);
        end = tier.endPosition(sequence, end, batch);
        if (end == sequence.numComputedTokens()) {
            return;
        }
        List<Sequence> forks = List.of();
        int promptEnd = group.numPromptTokens();
        if (group.numWaiting() > 0 && sequence.numComputedTokens() < promptEnd && promptEnd <= end) {
            end = promptEnd; // the partly filled block must be shared before output is written to it
            forks = chooseForks(group);
        }
        budget -= end - sequence.numComputedTokens();
        batch.add(sequence, end, forks);
    }

    /** Waiting siblings that fork when the prompt is complete: as many as there are sequence slots and blocks for. */
    private List<Sequence> chooseForks(SequenceGroup group) {
        int numTaken = running.size() + numForking;
        // Each fork takes a block with its first token and, like every running sequence, keeps one spare.
        int room = Math.min(maxNumRunning - numTaken, (blocks.numFreeBlocks() - numTaken) / 2);
        if (!blocks.maySharePrefix(group.numPromptTokens())) {
            room = 0; // each sample fills blocks of its own from where the prompt's last whole unit ends
        }
        List<Sequence> forks = new ArrayList<>();
        for (Sequence sequence : group.sequences()) {
            if (forks.size() >= room) {
                break;
            }
            if (sequence.isWaiting()) {
                sequence.awaitFork();
                numWaiting--;
                forks.add(sequence);
            }
        }
        numForking += forks.size();
        return forks;
    }
}
