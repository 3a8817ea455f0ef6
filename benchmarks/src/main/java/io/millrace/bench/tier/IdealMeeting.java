package io.millrace.bench.tier;

/**
 * The best that computing from the front and loading from the back can do together, in whole chunks, both busy from the
 * beginning to the end: of all meeting points, the one where the slower side ends first. What was not computed needs one more
 * step, which computes the prompt's last token and draws.
 *
 * @param seconds until the first token
 * @param numComputedChunks computed, the others loaded
 */
public record IdealMeeting(double seconds, int numComputedChunks) {

    /**
     * Finds it.
     *
     * @param computeSeconds [numChunks + 1] until so many chunks from the front are computed
     * @param ioSeconds [numChunks + 1] until so many chunks from the back are loaded
     * @param lastStepSeconds of the step that computes the token after the last chunk
     * @param lastTokenSeconds of that token alone: nothing was loaded, so it is computed with those before it
     */
    public static IdealMeeting of(
            double[] computeSeconds, double[] ioSeconds, double lastStepSeconds, double lastTokenSeconds) {
        if (computeSeconds.length != ioSeconds.length || computeSeconds.length == 0) {
            throw new IllegalArgumentException("times of computing " + (computeSeconds.length - 1)
                    + " chunks and of loading " + (ioSeconds.length - 1) + ": both must be of the same number");
        }
        int numChunks = computeSeconds.length - 1;
        IdealMeeting best = null;
        for (int computed = 0; computed <= numChunks; computed++) {
            double met = Math.max(computeSeconds[computed], ioSeconds[numChunks - computed]);
            double seconds = met + (computed == numChunks ? lastTokenSeconds : lastStepSeconds);
            if (best == null || seconds < best.seconds()) {
                best = new IdealMeeting(seconds, computed);
            }
        }
        return best;
    }
}
