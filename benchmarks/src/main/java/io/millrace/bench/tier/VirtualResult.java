package io.millrace.bench.tier;

/**
 * A cell's time beside what it is held against.
 *
 * @param cell the setting
 * @param seconds until the first token
 * @param idealSeconds of the best meeting of both resources, in whole steps
 * @param fluidIdealSeconds of the best meeting if steps could be cut short anywhere
 * @param limitSeconds the most that may pass
 * @param ioAloneSeconds by loading alone
 * @param computeAloneSeconds by computing alone
 * @param numLoadedTokens of the prompt, used from the store
 * @param computedShare of the tokens computed meanwhile, the prompt's own
 */
public record VirtualResult(
        VirtualCell cell,
        double seconds,
        double idealSeconds,
        double fluidIdealSeconds,
        double limitSeconds,
        double ioAloneSeconds,
        double computeAloneSeconds,
        int numLoadedTokens,
        double computedShare) {

    /** The share of the prompt's own tokens in what a run computed. */
    static double computedShare(VirtualCell cell, VirtualRun.Outcome outcome) {
        double own = cell.numTokens() + 1.0 - outcome.numLoadedTokens();
        return own / (own + outcome.numOtherTokens());
    }

    static VirtualResult of(VirtualCell cell, ComputeCosts costs, VirtualRun.Outcome outcome) {
        return new VirtualResult(
                cell,
                outcome.seconds(),
                cell.ideal(costs).seconds(),
                cell.fluidIdeal(costs).seconds(),
                cell.limitSeconds(costs),
                cell.ioAloneSeconds(costs),
                cell.computeAloneSeconds(costs),
                outcome.numLoadedTokens(),
                computedShare(cell, outcome));
    }

    public double overIdeal() {
        return seconds / idealSeconds;
    }

    public double overFluidIdeal() {
        return seconds / fluidIdealSeconds;
    }

    /** At most 1 where the first token came in time. */
    public double shareOfLimit() {
        return seconds / limitSeconds;
    }

    /** Speedup over loading alone. */
    public double overIo() {
        return ioAloneSeconds / seconds;
    }

    /** Speedup over computing alone. */
    public double overCompute() {
        return computeAloneSeconds / seconds;
    }

    /** Speedup over the better resource alone. */
    public double overBetter() {
        return Math.min(overIo(), overCompute());
    }

    /** Above 1 where the prompt was computed at the expense of others. */
    public double shareOverGiven() {
        return computedShare / cell.computeShare();
    }
}
