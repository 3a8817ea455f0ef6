package io.millrace.bench.tier;

/**
 * A cell whose compute and bandwidth are drawn anew every 100 ms: of every step's budget the measured prompt may have from none
 * to all, and the link carries from nothing to its maximum, each value as likely.
 *
 * @param cell the model, hardware and prompt; gbps is the link's maximum
 * @param seed of what is drawn
 */
public record Fluctuation(VirtualCell cell, long seed) {
    private static final long PERIOD_NANOS = 100_000_000;
    private static final long COMPUTE_STREAM = 1L << 32;

    public Bandwidth bandwidth() {
        return Bandwidth.redrawn(cell.gbps(), PERIOD_NANOS, seed);
    }

    /** Tokens of other requests in a step that begins at a time. */
    public int numOtherTokens(long nanos) {
        return cell.maxNumBatchedTokens() - numOwnTokens(nanos);
    }

    private int numOwnTokens(long nanos) {
        double drawn = Bandwidth.uniform(seed + COMPUTE_STREAM, nanos / PERIOD_NANOS);
        return (int) (drawn * (cell.maxNumBatchedTokens() + 1));
    }

    /** Seconds from a time on until so many chunks from the front are computed, for each number of chunks from 0 on. */
    double[] computeSeconds(ComputeCosts costs, long startNanos) {
        double[] seconds = new double[cell.numChunks() + 1];
        double now = 0;
        int computed = 0;
        for (int chunk = 1; chunk <= cell.numChunks(); ) {
            long nanos = startNanos + Math.round(now * 1e9);
            int own = numOwnTokens(nanos);
            double others = numOtherTokens(nanos) * costs.otherTokenSeconds();
            double step = others + costs.promptSeconds(computed, computed + own);
            while (chunk <= cell.numChunks() && chunk * VirtualCell.CHUNK_TOKENS <= computed + own) {
                // A chunk is there when the step's share up to its end has passed.
                double share = (double) (chunk * VirtualCell.CHUNK_TOKENS - computed) / own;
                seconds[chunk] = now + share * step;
                chunk++;
            }
            computed += own;
            now += step;
        }
        return seconds;
    }

    /** Seconds from a time on until so many chunks from the back are loaded, for each number of chunks from 0 on. */
    double[] ioSeconds(long startNanos) {
        double[] seconds = new double[cell.numChunks() + 1];
        Bandwidth bandwidth = bandwidth();
        long nanos = startNanos;
        for (int i = 1; i <= cell.numChunks(); i++) {
            nanos = bandwidth.finishNanos(nanos, cell.chunkBytes());
            seconds[i] = (nanos - startNanos) / 1e9;
        }
        return seconds;
    }

    /**
     * A run beside the best that both can do, knowing what is to come. A chunk is allowed for at the mean of what the link
     * carries and of what may be computed.
     */
    VirtualResult result(ComputeCosts costs, VirtualRun.Outcome outcome) {
        double[] compute = computeSeconds(costs, outcome.startNanos());
        double[] io = ioSeconds(outcome.startNanos());
        double lastToken = costs.promptSeconds(cell.numTokens(), cell.numTokens() + 1);
        double met = IdealMeeting.of(compute, io, 0, lastToken).seconds();
        long metNanos = outcome.startNanos() + Math.round(met * 1e9);
        double lastStep = lastToken + numOtherTokens(metNanos) * costs.otherTokenSeconds();
        double ideal = IdealMeeting.of(compute, io, lastStep, lastToken).seconds();
        int numChunks = cell.numChunks();
        double chunk = Math.max(compute[numChunks], io[numChunks]) / numChunks;
        return new VirtualResult(
                cell,
                outcome.seconds(),
                ideal,
                ideal,
                Math.max(1.08 * ideal, ideal + chunk),
                io[numChunks] + lastStep,
                compute[numChunks] + lastToken,
                outcome.numLoadedTokens(),
                VirtualResult.computedShare(cell, outcome));
    }
}
