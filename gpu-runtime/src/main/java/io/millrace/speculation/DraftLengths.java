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
 * a token that takes c of a plain step must come true in more than twice c of the cases. It is asked for nothing where its
 * {@link LookupAccount} is a loss. Now and then each batch size looks again at what it does not do, as {@link Revisits} say.
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

    private static final int PROBED_SHARE = 16;
    private static final int PROBED_TOKENS = 2;

    private final int maxDraftTokens;
    private final StepCosts costs = new StepCosts();
    private final Acceptance common = new Acceptance(0.995);
    private final Map<Sequence, Acceptance> acceptances = new HashMap<>();
    private final int[] bestLengths = new int[NUM_RATES + 1]; // by acceptance rate in steps
    private final BatchSize[] batchSizes = new BatchSize[StepCosts.NUM_CLASSES];
    private long numStepsOff;
    private boolean off;
    private boolean logged;

    private int roundSize; // sequences of a round of lookups under way, the kind that goes on account; else 0

    /** What is kept by class of batch sizes. */
    private static final class BatchSize {
        final Revisits revisits = new Revisits();
        final LookupAccount account = new LookupAccount();
        boolean isResting; // lookups were a loss
    }

    DraftLengths(int maxDraftTokens) {
        this.maxDraftTokens = maxDraftTokens;
        Arrays.setAll(batchSizes, c -> new BatchSize());
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
        Arrays.fill(lengths, 0, count, 0);
        Revisits revisits = batchSize(count).revisits;
        if (!costs.knowsPlainStep(count) || revisits.isPlainDue()) {
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
        if (any) {
            off = false;
            revisits.observeGain();
            return;
        }
        noteStepOff(count, "no number of proposals is faster than plain steps");
        if (revisits.isTryDue()) {
            probe(count, lengths);
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
        roundSize = 0;
        BatchSize size = batchSize(numSequences);
        if (!costs.knowsPlainStep(numSequences) || size.revisits.isPlainDue()) {
            return 1;
        }
        if (size.account.isPeriodOver()) {
            size.isResting = size.account.endPeriod();
            if (!size.isResting) {
                size.revisits.observeGain();
            }
        }
        if (size.isResting) {
            size.isResting = !size.revisits.isTryDue();
        }
        if (size.isResting) {
            noteStepOff(numSequences, "looking guesses up took longer than they saved");
            return 1;
        }
        if (!costs.knowsVerifyCost(numSequences)) {
            roundSize = numSequences;
            probe(numSequences, lengths);
            return 0;
        }
        double minChance = Math.max(MIN_CHANCE, MIN_CHANCE_OVER_COST * costs.verifyCost(numSequences));
        if (minChance > MAX_CHANCE) {
            noteStepOff(numSequences, "verifying costs so much that only the surest guesses would pay");
            if (size.revisits.isTryDue()) {
                probe(numSequences, lengths);
            }
            return 0;
        }
        off = false;
        roundSize = numSequences;
        Arrays.fill(lengths, 0, numSequences, maxDraftTokens);
        return minChance;
    }

    /** Notes how long looking up guesses took, before the step that verifies them. */
    void observeLookups(int numLookups, long nanos) {
        if (roundSize > 0) {
            batchSize(roundSize).account.observeLookups(numLookups, nanos / costs.plainNanos(roundSize));
        }
    }

    /**
     * Notes a step, before what was accepted in it.
     *
     * @param numDecoding sequences that computed their last token
     * @param numProposed tokens verified beside them
     * @param numPromptTokens all other tokens
     */
    void observeStep(int numDecoding, int numProposed, int numPromptTokens, long nanos) {
        costs.observeStep(numDecoding, numProposed, numPromptTokens, nanos);
        if (numProposed == 0) {
            batchSize(numDecoding).revisits.observePlainStep();
        } else if (roundSize > 0) {
            double verifyCost = costs.verifyCost(roundSize) / roundSize;
            batchSize(roundSize).account.observeVerifying(numProposed * verifyCost);
        }
    }

    /** Notes how many of a sequence's verified proposals were accepted. */
    void observeVerified(Sequence sequence, int numProposed, int numAccepted) {
        common.count(numProposed, numAccepted);
        acceptances.computeIfAbsent(sequence, s -> new Acceptance(0.9)).count(numProposed, numAccepted);
        if (roundSize > 0) {
            batchSize(roundSize).account.observeSaved((double) numAccepted / roundSize);
        }
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
        for (int i = 0; i < Math.max(1, count / PROBED_SHARE); i++) {
            lengths[i] = Math.min(PROBED_TOKENS, maxDraftTokens);
        }
    }

    private BatchSize batchSize(int numSequences) {
        return batchSizes[StepCosts.batchClass(numSequences)];
    }

    private void noteStepOff(int numSequences, String reason) {
        off = true;
        numStepsOff++;
        if (!logged) {
            logged = true;
            LOG.info(String.format(
                    "speculation is off at %d sequences: %s. Of the proposals %.0f %% are accepted, drafting one token for"
                            + " each sequence costs %.2f and verifying it %.2f of a plain step; it is tried again from time"
                            + " to time (said once)",
                    numSequences,
                    reason,
                    100 * common.rate(FIRST_RATE, PRIOR_WEIGHT),
                    costs.draftCost(numSequences),
                    costs.verifyCost(numSequences)));
        }
    }
}
