package io.millrace.engine;

import io.millrace.backend.Backend;
import io.millrace.backend.SequenceFaultException;
import io.millrace.backend.StepOutput;
import io.millrace.backend.StepTimes;
import io.millrace.engine.Request.ResumedSample;
import io.millrace.engine.StepReport.PromptScores;
import io.millrace.engine.StepReport.RequestFailure;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.kvcache.BlockManager;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.PrefixTier;
import io.millrace.prefix.TierStats;
import io.millrace.runner.ModelRunner;
import io.millrace.sampling.TokenLogprobs;
import io.millrace.scheduler.LowerTier;
import io.millrace.scheduler.ScheduledBatch;
import io.millrace.scheduler.ScheduledSequence;
import io.millrace.scheduler.Scheduler;
import io.millrace.scheduler.SchedulerConfig;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import io.millrace.speculation.Speculation;
import io.millrace.speculation.SpeculationStats;
import io.millrace.tokenizer.Tokenizer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import java.util.function.ToIntFunction;

/** The engine without its thread: requests in, steps, reports out. Engine thread only. */
final class EngineCore {
    private static final int[] NO_TOKENS = {};

    private final EngineConfig config;
    private final Tokenizer tokenizer; // null if the model has none
    private final int[] eosTokenIds;
    private final String saltPrefix;
    private final RequestLimits limits;
    private final BlockManager blocks;
    private final Backend backend;
    private final Scheduler scheduler;
    private final ModelRunner runner;
    private final Speculation speculation; // null if there is none
    private final PrefixTier tier; // null if there is none
    private final LongSupplier clock;
    private final ToIntFunction<Sequence> tokensLeft = this::tokensLeft;
    private final Verification verification = new Verification();
    private final Map<String, RequestState> requests = new HashMap<>();

    // News for the next report.
    private List<SampleDelta> deltas = new ArrayList<>();
    private List<PromptScores> promptScores = new ArrayList<>();
    private List<RequestFailure> failures = new ArrayList<>();

    private long arrivals;
    private long numSteps;
    private long numPromptTokens;
    private long numGeneratedTokens;
    private long numRestoredTokens;
    private StepTimes times = StepTimes.ZERO;

    /**
     * A core.
     *
     * @param limits what requests must keep to
     * @param saltPrefix names all that KV depends on beside the tokens and a request's own salt
     * @param tokenizer null if the model has none
     * @param speculation null to draw every token in a step of its own
     * @param store null for none; opened here
     * @param clock what all times are measured with
     * @param signal called by threads of the store when they have answered
     */
    EngineCore(
            EngineConfig config,
            RequestLimits limits,
            List<Integer> eosTokenIds,
            String saltPrefix,
            Tokenizer tokenizer,
            Backend backend,
            Speculation speculation,
            PrefixStore store,
            LongSupplier clock,
            Runnable signal) {
        this.clock = clock;
        this.config = config;
        this.limits = limits;
        this.eosTokenIds = toArray(eosTokenIds);
        this.saltPrefix = saltPrefix;
        this.tokenizer = tokenizer;
        this.backend = backend;
        this.speculation = speculation;
        blocks = new BlockManager(
                backend.numBlocks(),
                config.blockSize(),
                config.enablePrefixCaching(),
                PrefixTier.unitBlocks(config.tier(), config.blockSize()),
                backend.blocksPerRun());
        boolean needsTier = config.tier() != null
                && (store != null || config.tier().format().isLossy());
        tier = needsTier
                ? new PrefixTier(config.tier(), blocks, backend.kvTransfer(), store, saltPrefix, clock, signal)
                : null;
        scheduler = new Scheduler(
                new SchedulerConfig(
                        config.maxNumSeqs(),
                        config.maxNumBatchedTokens(),
                        config.tier() == null || config.tier().loadingLast()),
                blocks,
                tier == null ? LowerTier.NONE : tier);
        if (tier != null) {
            tier.setScheduler(scheduler);
        }
        runner = new ModelRunner(backend, config.blockSize(), config.maxNumBatchedTokens(), config.maxNumSeqs());
    }

    /** Takes a request in, or notes why it cannot be served. */
    void add(Request request, long submittedNanos) {
        if (requests.containsKey(request.id())) {
            failures.add(new RequestFailure(
                    request.id(),
                    "duplicate_request_id",
                    "a request of this id is in the engine already",
                    "give every request an id of its own"));
            return;
        }
        RequestFailure failure = limits.check(request);
        if (failure != null) {
            failures.add(failure);
            return;
        }
        RequestState state = newState(request, submittedNanos);
        if (!state.group().sequences().isEmpty()) {
            requests.put(request.id(), state);
            scheduler.add(state.group());
            if (tier != null) {
                tier.arrived(state.group(), request.affinityKey());
            }
            endReplayed(state);
        }
    }

    /** Ends a request's samples with ABORT; an unknown id is a request that ended already. */
    void cancel(String requestId) {
        RequestState state = requests.get(requestId);
        if (state == null) {
            return;
        }
        for (Sequence sequence : List.copyOf(state.group().sequences())) {
            state.output(sequence.sample()).abort();
            end(state, sequence, NO_TOKENS, null);
        }
    }

    /** Whether a step has anything to compute or to report. */
    boolean hasWork() {
        return scheduler.hasUnfinished() || !deltas.isEmpty() || !failures.isEmpty();
    }

    /** Runs a step; needs work. Null if all that there is waits for the prefix store, or until {@link #wakeNanos}. */
    StepReport step() {
        if (tier != null) {
            tier.beforeSchedule();
            if (deltas.isEmpty() && failures.isEmpty() && tier.isWorthWaiting(config.maxNumBatchedTokens())) {
                tier.afterSchedule();
                return null;
            }
        }
        if (speculation != null) {
            speculation.propose(scheduler.running(), tokensLeft);
        }
        ScheduledBatch batch = scheduler.schedule();
        if (tier != null) {
            tier.afterSchedule();
            if (batch.isEmpty() && deltas.isEmpty() && failures.isEmpty()) {
                return null;
            }
        }
        long begun = clock.getAsLong();
        StepOutput output = run(batch);
        return update(batch, output, clock.getAsLong() - begun);
    }

    /** When a step is worth trying although the prefix store has not answered; Long.MAX_VALUE for never. */
    long wakeNanos() {
        return tier == null ? Long.MAX_VALUE : tier.wakeNanos();
    }

    /** Does a little of what waits for idle moments; returns whether more is left. */
    boolean workWhileIdle() {
        return tier != null && tier.workWhileIdle();
    }

    EngineStats stats() {
        return new EngineStats(
                clock.getAsLong(),
                scheduler.numRunning(),
                scheduler.numWaiting(),
                blocks.numUsedBlocks(),
                blocks.numBlocks(),
                blocks.peakUsedBlocks(),
                blocks.numUsedSlots(),
                scheduler.numPreemptions(),
                scheduler.numQueriedTokens(),
                scheduler.numHitTokens(),
                numPromptTokens,
                numGeneratedTokens,
                numRestoredTokens,
                numSteps,
                backend.numKvBytesRead(),
                times,
                speculation == null ? SpeculationStats.NONE : speculation.stats(),
                tier == null ? TierStats.NONE : tier.stats());
    }

    /** Throws IllegalStateException if blocks and sequences do not add up; for tests. */
    void checkIntegrity() {
        blocks.checkIntegrity(
                scheduler.running().stream().map(Sequence::blockTable).toList());
        if (tier != null) {
            tier.checkIntegrity();
        }
    }

    private RequestState newState(Request request, long submittedNanos) {
        int[] stopIds = toArray(request.sampling().stopTokenIds());
        int[] eosIds = request.sampling().ignoreEos() ? NO_TOKENS : eosTokenIds;
        int[] suppressed = Arrays.copyOf(eosIds, eosIds.length + stopIds.length);
        System.arraycopy(stopIds, 0, suppressed, eosIds.length, stopIds.length);
        SequenceGroup group = new SequenceGroup(new SequenceGroup.Settings(
                request.id(),
                request.promptTokenIds(),
                request.sampling(),
                request.priority(),
                arrivals++,
                saltPrefix + request.cacheSalt(),
                request.promptLogprobsNeeded() && request.sampling().numPromptLogprobs() >= 0,
                suppressed));
        int n = request.sampling().n();
        ResumedSample[] resumed = new ResumedSample[n];
        for (ResumedSample sample : request.resumed()) {
            resumed[sample.sample()] = sample;
        }
        SampleOutput[] outputs = new SampleOutput[n];
        for (int i = 0; i < n; i++) {
            if (resumed[i] != null && resumed[i].finished()) {
                continue;
            }
            int[] tokens = resumed[i] == null ? NO_TOKENS : resumed[i].tokenIds();
            outputs[i] =
                    new SampleOutput(request.sampling(), eosIds, stopIds, limits.maxOutputTokens(request), tokenizer);
            for (int t = 0; t < tokens.length && !outputs[i].append(tokens[t]); t++) {}
            group.addSequence(i, tokens);
            numRestoredTokens += tokens.length;
        }
        return new RequestState(group, outputs, submittedNanos);
    }

    /** Ends samples whose restored tokens had ended them already. */
    private void endReplayed(RequestState state) {
        for (Sequence sequence : List.copyOf(state.group().sequences())) {
            if (state.output(sequence.sample()).isFinished()) {
                end(state, sequence, NO_TOKENS, null);
            }
        }
    }

    private int tokensLeft(Sequence sequence) {
        return requests.get(sequence.group().id()).output(sequence.sample()).numTokensLeft();
    }

    /**
     * Runs the batch; a fault of one sequence fails its request and the rest runs again. A sequence with proposals is tried
     * once more without: what nobody drew must not fail a request. Null if nothing was left.
     */
    private StepOutput run(ScheduledBatch batch) {
        markScheduled(batch);
        while (!batch.isEmpty()) {
            try {
                return runner.run(batch);
            } catch (SequenceFaultException fault) {
                ScheduledSequence faulty = batch.sequences().get(fault.sequence());
                if (faulty.numProposedTokens() > 0) {
                    scheduler.dropProposals(fault.sequence());
                    continue;
                }
                SequenceGroup group = faulty.sequence().group();
                group.sequences().forEach(this::forget);
                scheduler.removeFromBatch(group);
                requests.remove(group.id());
                failures.add(new RequestFailure(
                        group.id(),
                        "engine_fault",
                        "computing the request failed: " + fault.getMessage(),
                        "the request is left out; report it with the message above if its input is sound"));
            }
        }
        return null;
    }

    private void markScheduled(ScheduledBatch batch) {
        long now = clock.getAsLong();
        List<ScheduledSequence> sequences = batch.sequences();
        for (int i = 0; i < sequences.size(); i++) {
            SequenceGroup group = sequences.get(i).sequence().group();
            if (sequences.get(i).firstPosition() < group.numPromptTokens()) {
                requests.get(group.id()).markScheduled(now);
            }
        }
    }

    private StepReport update(ScheduledBatch batch, StepOutput output, long nanos) {
        if (output != null) {
            numSteps++;
            times = times.plus(output.times());
            countPromptTokens(batch);
            if (speculation != null) {
                observe(batch, nanos);
            }
            verify(output);
            double sumPositions = batch.sumPositions();
            scheduler.markComputed(batch);
            if (tier != null) {
                tier.afterStep(batch, sumPositions, nanos);
            }
            for (int row = 0; row < runner.numRows(); row++) {
                if (runner.scoredPosition(row) >= 0) {
                    runner.rowSequence(row).group().setScore(runner.scoredPosition(row), output.logprobs()[row]);
                } else {
                    take(runner.rowSequence(row), output, row);
                    row += runner.numDraws(row) - 1;
                }
            }
            reportPromptScores(batch);
        }
        return takeReport();
    }

    /** Tells the speculation what the step took, threads that came late included. */
    private void observe(ScheduledBatch batch, long nanos) {
        int numDecoding = 0;
        int numProposed = 0;
        int numOther = 0;
        List<ScheduledSequence> sequences = batch.sequences();
        for (int i = 0; i < sequences.size(); i++) {
            ScheduledSequence scheduled = sequences.get(i);
            int proposed = scheduled.numProposedTokens();
            if (scheduled.numTokens() - proposed == 1) {
                numDecoding++;
                numProposed += proposed;
            } else {
                numOther += scheduled.numTokens();
            }
        }
        speculation.observeStep(numDecoding, numProposed, numOther, nanos);
    }

    /** Hands the samples the drawn tokens that count, before anything is noted as computed. */
    private void verify(StepOutput output) {
        long now = clock.getAsLong();
        for (int row = 0; row < runner.numRows(); row++) {
            if (runner.scoredPosition(row) >= 0) {
                continue;
            }
            Sequence sequence = runner.rowSequence(row);
            int numProposed = runner.numDraws(row) - 1;
            SampleOutput sample = requests.get(sequence.group().id()).output(sequence.sample());
            int numAccepted = verification.take(sequence, sample, output, row);
            if (numProposed > 0) {
                speculation.observeVerified(sequence, numProposed, numAccepted);
            }
            sample.stamp(now);
            numGeneratedTokens += verification.numTaken(row);
            row += numProposed;
        }
    }

    /** Reports a sequence's tokens of the step; the last of them is not computed yet. */
    private void take(Sequence sequence, StepOutput output, int row) {
        RequestState state = requests.get(sequence.group().id());
        int numTaken = verification.numTaken(row);
        int[] tokenIds = Arrays.copyOfRange(output.tokenIds(), row, row + numTaken);
        TokenLogprobs[] logprobs =
                output.logprobs()[row] == null ? null : Arrays.copyOfRange(output.logprobs(), row, row + numTaken);
        if (state.output(sequence.sample()).isFinished()) {
            end(state, sequence, tokenIds, logprobs);
        } else {
            sequence.append(tokenIds[numTaken - 1]);
            deltas.add(new SampleDelta(sequence.group().id(), sequence.sample(), tokenIds, logprobs, null));
        }
    }

    private void forget(Sequence sequence) {
        if (speculation != null) {
            speculation.forget(sequence);
        }
        if (tier != null) {
            tier.forget(sequence);
        }
    }

    private void end(RequestState state, Sequence sequence, int[] tokenIds, TokenLogprobs[] logprobs) {
        SequenceGroup group = state.group();
        deltas.add(
                new SampleDelta(group.id(), sequence.sample(), tokenIds, logprobs, state.finished(sequence.sample())));
        forget(sequence);
        scheduler.finish(sequence);
        if (group.sequences().isEmpty()) {
            requests.remove(group.id());
        }
    }

    private void countPromptTokens(ScheduledBatch batch) {
        for (ScheduledSequence scheduled : batch.sequences()) {
            int promptEnd = scheduled.sequence().group().numPromptTokens();
            numPromptTokens += Math.max(0, Math.min(promptEnd, scheduled.endPosition()) - scheduled.firstPosition());
        }
    }

    private void reportPromptScores(ScheduledBatch batch) {
        List<ScheduledSequence> sequences = batch.sequences();
        for (int i = 0; i < sequences.size(); i++) {
            SequenceGroup group = sequences.get(i).sequence().group();
            TokenLogprobs[] scores = group.needsPromptScores() ? group.takePromptScores() : null;
            if (scores != null) {
                promptScores.add(new PromptScores(group.id(), scores));
            }
        }
    }

    private StepReport takeReport() {
        StepReport report = new StepReport(numSteps, deltas, promptScores, failures);
        deltas = new ArrayList<>(deltas.size());
        promptScores = new ArrayList<>(0);
        failures = new ArrayList<>(0);
        return report;
    }

    private static int[] toArray(List<Integer> ids) {
        return ids.stream().mapToInt(Integer::intValue).toArray();
    }
}
