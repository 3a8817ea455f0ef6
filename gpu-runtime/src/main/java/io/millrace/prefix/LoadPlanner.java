package io.millrace.prefix;

import io.millrace.prefix.ChunkLoads.Wanted;
import io.millrace.prefix.PrefixLoad.ChunkState;
import io.millrace.scheduler.PromptLimits;
import io.millrace.scheduler.ScheduledBatch;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * For all loads of a step together: how far each sequence is computed beside its load, and which chunks are asked for in which
 * order. The disk serves requests in the order of service, each from the back of its stored prefix: first all chunks that
 * loading is to bring, then those that computing is to reach, in case it does not. Engine thread only.
 */
final class LoadPlanner {
    /** How long a prefix waits to hear what is stored of it before it is computed meanwhile. */
    static final long FIND_PATIENCE_NANOS = 50_000_000L;

    private static final long SHORTEST_WAIT_NANOS = 100_000L;

    /** How long a step waits for the answer to a find that was just asked for. */
    private static final long FIND_GRACE_NANOS = 500_000L;

    // Short steps cost throughput: eight at once, then one of five steps. Waits cost what they last: eight of the
    // longest for a find at once, or a quarter of a step, then a twentieth of the time that steps take.
    private static final int MAX_SHORT_STEPS = 8;
    private static final double SHORT_STEPS_PER_STEP = 0.2;
    private static final double MAX_WAIT_NANOS = 8.0 * FIND_GRACE_NANOS;
    private static final double WAITS_PER_STEP = 0.05;
    private static final double MAX_WAITS_PER_STEP = 0.25;
    private static final int SHORTEST_PART_OF_BUDGET = 32;
    private static final int MAX_SHORT_STEPS_BEFORE_ADMISSION = 2;
    private static final double MIN_GAIN = 0.985; // of a full step
    private static final double MARGIN = 1.02; // so that the step ends behind the last answer, not just before

    private final int chunkTokens;
    private final ChunkLoads loads;
    private final ComputeRate compute;
    private final MeetingPlan plan;
    private double shortSteps = MAX_SHORT_STEPS; // that may be planned
    private final Set<ChunkKey> claims = new HashSet<>();
    private final Set<TierSequence> followers = new HashSet<>();
    private long now;
    private LoadRate.Forecast forecast = LoadRate.Forecast.NEVER;
    private boolean uncertain;
    private int numAhead;
    private long wakeNanos;
    private TierSequence waitingFor; // instead of a step; null if there is no such wait
    private boolean waitingForFind;
    private long waitUntil; // the end of the wait that was begun last
    private long waitedAsOf; // how far that wait was paid for
    private double waitNanos = MAX_WAIT_NANOS; // that may be waited

    LoadPlanner(int chunkTokens, ChunkLoads loads, ComputeRate compute) {
        this.chunkTokens = chunkTokens;
        this.loads = loads;
        this.compute = compute;
        plan = new MeetingPlan(chunkTokens);
    }

    /**
     * Begins a step.
     *
     * @param active sequences with loads, in order of service
     */
    void begin(List<TierSequence> active, long nowNanos) {
        now = nowNanos;
        forecast = loads.forecast(now);
        uncertain = loads.isRateUncertain(now);
        numAhead = 0;
        wakeNanos = Long.MAX_VALUE;
        for (TierSequence each : active) {
            each.planned = false;
        }
        findFollowers(active);
    }

    /**
     * A prefix that another one, served before, is bringing into memory is not loaded twice: whoever has no blocks yet waits
     * for it and then finds them.
     */
    private void findFollowers(List<TierSequence> active) {
        claims.clear();
        followers.clear();
        if (active.size() < 2) {
            return;
        }
        for (TierSequence each : active) {
            if (!each.sequence.isRunning() && needsClaimed(each)) {
                followers.add(each);
            } else if (each.pointerChunk(chunkTokens) < each.load.keys().size()) {
                claims.add(each.load.keys().get(each.pointerChunk(chunkTokens)));
            }
        }
    }

    private boolean needsClaimed(TierSequence each) {
        for (ChunkKey key : each.load.keys()) {
            if (claims.contains(key)) {
                return true;
            }
        }
        return false;
    }

    /**
     * How long the step is to be: the first of the loading prefixes that run should neither wait behind other prompts for a
     * chunk that is there already, nor for the answer to what is stored. Others keep their share of what is computed.
     *
     * @param numOtherTokens tokens of other prompts that the step would compute
     */
    PromptLimits promptLimits(List<TierSequence> active, int budget, int numOtherTokens, ScheduledBatch batch) {
        PromptLimits limits = null;
        if (shortSteps >= 1 && numOtherTokens > 0 && compute.isKnown()) {
            for (int i = 0; i < active.size() && limits == null; i++) {
                TierSequence each = active.get(i);
                if (each.load.isFinding() && now - each.waitingSince < FIND_PATIENCE_NANOS) {
                    limits = limits(0, 0, budget, numOtherTokens);
                } else if (mayHurryFor(each)) {
                    limits = limitsToMeeting(each, budget, numOtherTokens, batch);
                    each.numShortStepsBeforeAdmission += limits == null || each.sequence.isRunning() ? 0 : 1;
                    break;
                }
            }
        }
        if (limits == null) {
            return new PromptLimits(budget, budget);
        }
        shortSteps--;
        return limits;
    }

    /**
     * Limits of a step that ends with a prompt whose stored part has just been loaded: others went before it meanwhile, so it
     * is not to wait for those that are served after it, too.
     *
     * @param numTokens of the prompt, and of those that are served before it
     * @param numOtherTokens tokens of all prompts that are not being loaded, as far as they fit into the budget
     * @return null if that would not save half a step
     */
    PromptLimits limitsToLoaded(int numTokens, int budget, int numOtherTokens) {
        int limit = Math.max(numTokens, Math.max(1, budget / SHORTEST_PART_OF_BUDGET));
        if (shortSteps < 1 || limit > numOtherTokens / 2) {
            return null;
        }
        shortSteps--;
        return new PromptLimits(limit, limit);
    }

    /** Notes that a step was run. */
    void observeStep(long nanos) {
        shortSteps = Math.min(MAX_SHORT_STEPS, shortSteps + SHORT_STEPS_PER_STEP);
        double most = Math.max(MAX_WAIT_NANOS, MAX_WAITS_PER_STEP * nanos);
        waitNanos = Math.max(waitNanos, Math.min(most, waitNanos + WAITS_PER_STEP * nanos));
    }

    private static boolean mayHurryFor(TierSequence each) {
        return !each.load.isFinding()
                && (each.sequence.isRunning() || each.numShortStepsBeforeAdmission < MAX_SHORT_STEPS_BEFORE_ADMISSION);
    }

    /**
     * Whether the step had better wait a moment: for what is stored of a prompt that has just come, or for chunks that are
     * there sooner than the shortest step would take.
     *
     * @param budget of a step
     * @param numOtherTokens tokens of other prompts that the step would compute
     */
    boolean isWorthWaiting(List<TierSequence> active, int budget, int numOtherTokens) {
        TierSequence before = waitingFor;
        boolean findBefore = waitingForFind;
        if (before != null) {
            long waited = Math.min(now, waitUntil); // it may have ended in a step of which nobody was told
            waitNanos -= waited - waitedAsOf;
            waitedAsOf = waited;
        }
        waitingFor = null;
        long nanos = nanosWorthWaiting(active, budget, numOtherTokens);
        if (waitingFor == before && waitingForFind == findBefore) {
            nanos = Math.min(nanos, waitUntil - now); // a wait that was begun is not made longer
        } else if (nanos <= waitNanos) {
            waitUntil = now + nanos;
            waitedAsOf = now;
        } else {
            nanos = 0;
        }
        if (nanos <= 0) {
            waitingFor = null;
            return false;
        }
        wakeNanos = Math.min(wakeNanos, now + nanos);
        return true;
    }

    private long nanosWorthWaiting(List<TierSequence> active, int budget, int numOtherTokens) {
        for (int i = 0; i < active.size(); i++) {
            TierSequence each = active.get(i);
            if (each.load.isFinding()) {
                waitingFor = each;
                waitingForFind = true;
                return each.waitingSince + FIND_GRACE_NANOS - now;
            }
            if (mayHurryFor(each) && numOtherTokens > 0 && compute.isKnown()) {
                addChunksNotAtHand(each, pointer(each));
                double nanos = forecast.nanos(plan.numChunks());
                double shortest = compute.nanos(Math.max(1, budget / SHORTEST_PART_OF_BUDGET), 0);
                waitingFor = each;
                waitingForFind = false;
                return plan.numChunks() == 0 || nanos > shortest ? 0 : (long) Math.ceil(MARGIN * nanos);
            }
        }
        return 0;
    }

    /** Where a sequence is, or will be at least once it has blocks. */
    private int pointer(TierSequence each) {
        return each.sequence.isRunning() ? each.sequence.numComputedTokens() : each.load.numCached() * chunkTokens;
    }

    /** Limits of a step that ends when computing and loading of a prefix meet; null if that is not in this step. */
    private PromptLimits limitsToMeeting(TierSequence each, int budget, int numOtherTokens, ScheduledBatch batch) {
        int first = pointer(each);
        addChunksNotAtHand(each, first);
        int numOwnTokens = budget - numOtherTokens;
        double scale = numOwnTokens == 0 ? Double.POSITIVE_INFINITY : (double) budget / numOwnTokens;
        plan.plan(
                1 << 30, // as if others had their share of every token
                (from, count) -> compute.nanos(scale * count, ComputeRate.sumPositions(from, from + count)),
                forecast,
                0);
        int numTokens = plan.numTokensToCompute();
        double begun = compute.nanos(batch.numTokens(), batch.sumPositions());
        double tokenNanos = compute.nanos(1, 0);
        double own = compute.nanos(numTokens, ComputeRate.sumPositions(first, first + numTokens));
        double othersNanos = MARGIN * plan.nanos() - begun - own;
        double fullNanos = begun + own + numOtherTokens * tokenNanos;
        if (plan.numLoaded() == 0 || numTokens > numOwnTokens || begun + own + othersNanos > MIN_GAIN * fullNanos) {
            return null;
        }
        return limits(numTokens, (int) Math.ceil(othersNanos / tokenNanos), budget, numOtherTokens);
    }

    /** A step of at least a part of the budget, of which so many tokens are reserved; null if it would not be shorter. */
    private static PromptLimits limits(int numReserved, int numOthers, int budget, int numOtherTokens) {
        int shortest = Math.max(1, budget / SHORTEST_PART_OF_BUDGET) - numReserved;
        int others = Math.max(Math.max(0, numOthers), shortest);
        return others >= numOtherTokens ? null : new PromptLimits(others + numReserved, others);
    }

    private void addChunksNotAtHand(TierSequence each, int first) {
        PrefixLoad load = each.load;
        plan.begin(first);
        for (int chunk = first / chunkTokens; chunk < load.numStored(); chunk++) {
            ChunkState state = load.state(chunk);
            if (state == ChunkState.STORED || state == ChunkState.MISSING) {
                plan.add(chunk, state == ChunkState.STORED);
            }
        }
    }

    boolean isFollower(TierSequence each) {
        return followers.contains(each);
    }

    /** When to look again although nothing was heard; Long.MAX_VALUE if only an answer or a deadline can change the plan. */
    long wakeNanos() {
        return wakeNanos;
    }

    /**
     * How far to compute a sequence that has a load.
     *
     * @param maxEnd what budget and tokens allow
     * @param batch what the step computes already
     */
    int endPosition(TierSequence each, int maxEnd, ScheduledBatch batch) {
        int first = each.sequence.numComputedTokens();
        PrefixLoad load = each.load;
        int end = load.isFinding() ? endWhileFinding(each, first, maxEnd) : endBesideLoads(each, first, maxEnd, batch);
        each.stepEnd = Math.max(end, each.planned ? each.stepEnd : 0);
        each.planned = true;
        return end;
    }

    private int endWhileFinding(TierSequence each, int first, int maxEnd) {
        long patience = each.waitingSince + FIND_PATIENCE_NANOS;
        each.firstWantedChunk = 0;
        if (now - patience >= 0) {
            return maxEnd;
        }
        wakeNanos = Math.min(wakeNanos, patience);
        return first;
    }

    private int endBesideLoads(TierSequence each, int first, int maxEnd, ScheduledBatch batch) {
        PrefixLoad load = each.load;
        addChunksNotAtHand(each, first);
        int maxStepTokens = maxEnd > first ? maxEnd - first : chunkTokens;
        if (plan.numChunks() > 0 && plan.chunk(0) > first / chunkTokens) {
            wakeNanos = now; // the next chunk is at hand and moves the sequence on before the next step
            each.firstWantedChunk = 0;
            return first;
        }
        if (!compute.isKnown()) {
            each.firstWantedChunk = first / chunkTokens;
            numAhead += plan.numChunks();
            return Math.min(maxEnd, (first / chunkTokens + 1) * chunkTokens);
        }
        double otherTokens = batch.numTokens();
        double otherPositions = batch.sumPositions();
        MeetingPlan.StepCost cost = (from, count) ->
                compute.nanos(otherTokens + count, otherPositions + ComputeRate.sumPositions(from, from + count));
        plan.plan(maxStepTokens, cost, forecast, numAhead);
        int numChunks = plan.numChunks();
        int numComputed = plan.numComputed();
        if (numComputed == numChunks) {
            // Not worth a load; but a rate that is hardly known is worth one.
            each.firstWantedChunk = uncertain && numChunks > 1 ? load.numStored() - 1 : load.numStored();
        } else {
            each.firstWantedChunk = plan.chunk(numComputed);
        }
        int end = Math.min(maxEnd, plan.computeEnd(load.endOfStored()));
        if (end <= first && maxEnd > first && numChunks > 0) {
            int nextStep = Math.min(maxStepTokens, (plan.chunk(0) + 1) * chunkTokens - first);
            wakeNanos = Math.min(wakeNanos, whenComputingPays(cost.nanos(first, nextStep), numChunks + numAhead));
        }
        numAhead += plan.numLoaded();
        return end;
    }

    /** When, if nothing is heard, loads will look so slow that computing a chunk ends sooner. */
    private long whenComputingPays(double chunkComputeNanos, int numLoads) {
        double usual = forecast.chunkNanos();
        if (Double.isInfinite(usual)) {
            return Long.MAX_VALUE;
        }
        double elapsed = Math.max(loads.chunkNanos(now), (chunkComputeNanos + loads.chunkNanos(now)) / numLoads);
        long flip = loads.headSince(now) + (long) (1.01 * elapsed);
        return Math.max(flip, now + Math.max(SHORTEST_WAIT_NANOS, (long) (usual / 4)));
    }

    /** Which chunks to ask for while the step runs, in order. */
    List<Wanted> wanted(List<TierSequence> active) {
        List<Wanted> wanted = new ArrayList<>();
        for (TierSequence each : active) {
            if (!isFollower(each)) {
                addStored(wanted, each, each.planned ? each.firstWantedChunk : 0, each.load.numStored());
            }
        }
        for (TierSequence each : active) {
            if (each.planned && each.firstWantedChunk < each.load.numStored()) {
                int afterStep = (each.stepEnd + chunkTokens - 1) / chunkTokens;
                addStored(wanted, each, afterStep, each.firstWantedChunk);
            }
        }
        return wanted;
    }

    private void addStored(List<Wanted> wanted, TierSequence each, int firstChunk, int endChunk) {
        boolean prefetch = !each.sequence.isRunning();
        int lowest = Math.max(firstChunk, each.pointerChunk(chunkTokens));
        for (int chunk = endChunk - 1; chunk >= lowest; chunk--) {
            if (each.load.state(chunk) == ChunkState.STORED) {
                wanted.add(new Wanted(each.load, chunk, prefetch));
            }
        }
    }
}
