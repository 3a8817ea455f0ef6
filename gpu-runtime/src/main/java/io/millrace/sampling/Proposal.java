package io.millrace.sampling;

/**
 * A token that a draft proposed for a row, to be verified by the rule of Leviathan, Kalman and Matias ("Fast Inference from
 * Transformers via Speculative Decoding", 2023): it is accepted with probability min(1, p / q), else a token is drawn from
 * the residual max(0, p - q). The drawn token has the target's distribution p whatever the draft's distribution q is.
 *
 * @param tokenId what the draft proposed
 * @param distribution q, [vocabSize] probabilities; null for a draft that is certain of its proposal (prompt lookup). Owned
 *     by the draft; must not change until the row is drawn
 */
public record Proposal(int tokenId, float[] distribution) {

    /** The chance that the draft had of proposing this token. */
    double probability(int id) {
        if (distribution == null) {
            return id == tokenId ? 1 : 0;
        }
        return distribution[id];
    }
}
