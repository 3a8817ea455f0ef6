package io.millrace.speculation;

import io.millrace.plan.SpeculationCost;
import io.millrace.sequence.Sequence;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How many tokens to propose for each sequence: the number for which {@link SpeculationCost} promises the most, given the
 * sequence's own acceptance rate and what drafting and verifying cost at this batch by {@link StepCosts}; none where that
 * is no faster than plain steps. A proposer that knows its guesses' chances is told instead which chance is worth verifying:
 * a token that takes c of a plain step must come true in more than twice c of the cases. Now and then it looks again at what it
 * does not do: a plain step while it speculates, a few proposals while it does not.
 *
 * <p>Goes by the clock, so how many tokens are proposed may differ from run to run. Under the coupled rule no output
 * depends on it.
 */
final class DraftLengths {
    private static final Logger LOG = LoggerFactory.getLogger(DraftLengths.class);

    /** Acceptance rates are told apart in so many steps. */
    private static final int NUM_RATES = 32;

    private static final double FIRST_RATE = 0.5;
    private static final double PRIOR_WEIGHT = 6;

    /** Estimates that are high by luck are chosen more often than others, so a small promised gain would be a loss. */
    private static final double MIN_SPEEDUP = 1.1;

    /** A verified token must promise so much more than it costs: what it costs is measured, and the clock is not exact. */
    private static final double MIN_CHANCE_OVER_COST = 2;

    /** Chances below are not told apart from nothing: of all ways to match, the luckiest is taken. */
    private static final double MIN_CHANCE = 0.3;

    /**
     * Where only surer guesses would pay, they gain some percent at best and lose as much where their chances are
     * overestimated. Not below what is asked of a batch size whose cost is not known, or that would never be tried.
     */
    private static final double MAX_CHANCE = 0.8;

    private static final int PLAIN_INTERVAL = 64;
    private static final int MIN_PROBE_INTERVAL = 64;
    private static final int MAX_PROBE_INTERVAL = 256;
    private static final int PROBED_SHARE = 8;
    private static final int PROBED_TOKENS = 2;

    private final int maxDraftTokens;
    private final StepCosts costs = new StepCosts();
    private final Acceptance common = new Acceptance(0.995);
    private final Map<Sequence, Acceptance> acceptances = new HashMap<>();
    private final int[] bestLengths = new int[NUM_RATES + 1]; // by acceptance rate in steps
    private int numStepsSincePlain;
    private int numStepsSinceProbe;
    private int probeInterval = MIN_PROBE_INTERVAL;
    private long numStepsOff;
    private boolean off;
    private boolean logged;

    DraftLengths(int maxDraftTokens) {
        this.maxDraftTokens = maxDraftTokens;
    }

    StepCosts costs() {
        return costs;
    }

    long numStepsOff() {
        return numStepsOff;
    }

    boolean isOff() {
        return off;
    }

    /**
     * Decides for a step.
     *
     * @param sequences those that decode
     * @param lengths [sequences] receives how many tokens to propose
     */
    void choose(List<Sequence> sequences, int[] lengths) {
        int count = sequences.size();
        for (int i = 0; i < count; i++) {
            lengths[i] = 0;
        }
        if (!costs.knowsPlainStep(count)) {
            return;
        }
        if (++numStepsSincePlain > PLAIN_INTERVAL) {
            numStepsSincePlain = 0;
            return;
        }
        double prior = common.rate(FIRST_RATE, PRIOR_WEIGHT);
        fillBestLengths(count);
        boolean any = false;
        for (int i = 0; i < count; i++) {
            Acceptance acceptance = acceptances.computeIfAbsent(sequences.get(i), s -> new Acceptance(0.9));
            double rate = acceptance.rate(prior, PRIOR_WEIGHT);
            lengths[i] = bestLengths[(int) Math.round(rate * NUM_RATES)];
            if (lengths[i] == 0) {
                acceptance.fade();
            }
            any |= lengths[i] > 0;
        }
        off = !any;
        if (off) {
            numStepsOff++;
            noteOff(count, prior);
            probe(count, lengths);
        } else {
            numStepsSinceProbe = 0;
            probeInterval = MIN_PROBE_INTERVAL;
        }
    }

    /**
     * Decides for a step whose proposer knows its guesses' chances.
     *
     * @param lengths [numSequences] receives how many tokens may be proposed
     * @return the least chance that is worth verifying
     */
    double chooseChance(int numSequences, int[] lengths) {
        Arrays.fill(lengths, 0, numSequences, 0);
        if (!costs.knowsPlainStep(numSequences)) {
            return 1;
        }
        if (++numStepsSincePlain > PLAIN_INTERVAL) {
            numStepsSincePlain = 0;
            return 1;
        }
        double minChance = Math.max(MIN_CHANCE, MIN_CHANCE_OVER_COST * costs.verifyCost(numSequences));
        off = minChance > MAX_CHANCE;
        if (off) {
            numStepsOff++;
            noteOff(numSequences, common.rate(FIRST_RATE, PRIOR_WEIGHT));
            probe(numSequences, lengths);
            return 0;
        }
        numStepsSinceProbe = 0;
        probeInterval = MIN_PROBE_INTERVAL;
        Arrays.fill(lengths, 0, numSequences, maxDraftTokens);
        return minChance;
    }

    void observeVerified(Sequence sequence, int numProposed, int numAccepted) {
        common.count(numProposed, numAccepted);
        acceptances.computeIfAbsent(sequence, s -> new Acceptance(0.9)).count(numProposed, numAccepted);
    }

    /** Notes a step that verified nothing: it is a look at a plain one. */
    void observePlainStep() {
        numStepsSincePlain = 0;
    }

    void forget(Sequence sequence) {
        acceptances.remove(sequence);
    }

    private void fillBestLengths(int numSequences) {
        double draftCost = costs.draftCost(numSequences);
        double verifyCost = costs.verifyCost(numSequences);
        for (int r = 0; r <= NUM_RATES; r++) {
            SpeculationCost cost = new SpeculationCost(draftCost, (double) r / NUM_RATES);
            int best = cost.bestNumDraftTokens(maxDraftTokens, verifyCost);
            bestLengths[r] = cost.speedup(best, 1 + best * verifyCost) < MIN_SPEEDUP ? 0 : best;
        }
    }

    private void probe(int count, int[] lengths) {
        if (++numStepsSinceProbe < probeInterval) {
            return;
        }
        numStepsSinceProbe = 0;
        probeInterval = Math.min(MAX_PROBE_INTERVAL, 2 * probeInterval);
        for (int i = 0; i < Math.max(1, count / PROBED_SHARE); i++) {
            lengths[i] = Math.min(PROBED_TOKENS, maxDraftTokens);
        }
    }

    private void noteOff(int numSequences, double rate) {
        if (!logged) {
            logged = true;
            LOG.info(String.format(
                    "speculation is off at %d sequences: of the proposals %.0f %% are accepted, drafting one token for each"
                            + " sequence costs %.2f and verifying it %.2f of a plain step, so no number of them is faster;"
                            + " it is tried again from time to time (said once)",
                    numSequences, 100 * rate, costs.draftCost(numSequences), costs.verifyCost(numSequences)));
        }
    }
}
