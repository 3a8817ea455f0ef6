package io.millrace.engine;

import io.millrace.sampling.SamplingParams;
import io.millrace.tokenizer.StopMatcher;
import io.millrace.tokenizer.TextStream;
import io.millrace.tokenizer.Tokenizer;

/**
 * One sample's text, and whether it has ended. EOS ids and stop ids end it at once, stop texts when their last character is
 * there; min_tokens holds all of them off: what the first min_tokens tokens say ends nothing. Engine thread only.
 */
final class SampleOutput {
    private final SamplingParams params;
    private final int[] eosTokenIds;
    private final int[] stopTokenIds;
    private final int maxTokens;
    private final TextStream stream; // null without a tokenizer
    private final StopMatcher stops; // null without stop texts
    private int numTokens;
    private int searchedLength; // of the text: stop texts that end within it were looked for, or do not count
    private FinishReason reason;
    private String stopText;
    private int stopTokenId = -1;
    private int textLength = -1; // where a stop text cuts the text
    private long firstTokenNanos;
    private long lastTokenNanos;

    /**
     * Starts a sample's output.
     *
     * @param eosTokenIds ids that end it; empty for a request that ignores them
     * @param stopTokenIds further ids that end it
     * @param maxTokens most tokens, the context length considered
     * @param tokenizer null if the model has none; then params has no stop texts
     */
    SampleOutput(SamplingParams params, int[] eosTokenIds, int[] stopTokenIds, int maxTokens, Tokenizer tokenizer) {
        this.params = params;
        this.eosTokenIds = eosTokenIds;
        this.stopTokenIds = stopTokenIds;
        this.maxTokens = maxTokens;
        stream = tokenizer == null ? null : tokenizer.newTextStream(params.skipSpecialTokens());
        stops = params.stop().isEmpty() ? null : new StopMatcher(params.stop());
    }

    /** Takes a drawn token; returns whether it ended the sample. */
    boolean append(int tokenId) {
        numTokens++;
        if (numTokens > params.minTokens()) {
            if (contains(eosTokenIds, tokenId)) {
                end(FinishReason.STOP);
                return true;
            }
            if (contains(stopTokenIds, tokenId)) {
                stopTokenId = tokenId;
                if (params.includeStopStrInOutput() && stream != null) {
                    stream.append(tokenId);
                }
                end(FinishReason.STOP);
                return true;
            }
        }
        if (stream != null) {
            stream.append(tokenId);
            if (findStopText()) {
                return true;
            }
        }
        if (numTokens >= maxTokens) {
            end(FinishReason.LENGTH);
            return true;
        }
        return false;
    }

    /** How many more tokens it may take. */
    int numTokensLeft() {
        return maxTokens - numTokens;
    }

    /** Notes when a token was drawn, in System.nanoTime. */
    void stamp(long nanos) {
        if (firstTokenNanos == 0) {
            firstTokenNanos = nanos;
        }
        lastTokenNanos = nanos;
    }

    /** When the first token of this run was drawn; 0 before. */
    long firstTokenNanos() {
        return firstTokenNanos;
    }

    /** From the first to the last token of this run. */
    long decodeNanos() {
        return lastTokenNanos - firstTokenNanos;
    }

    /** Ends a sample that was cancelled. */
    void abort() {
        end(FinishReason.ABORT);
    }

    boolean isFinished() {
        return reason != null;
    }

    FinishReason reason() {
        return reason;
    }

    /** The stop text that ended the sample, or null. */
    String stopText() {
        return stopText;
    }

    /** The stop id that ended the sample, or -1. */
    int stopTokenId() {
        return stopTokenId;
    }

    /** The text, cut at a stop text; null without a tokenizer. */
    String text() {
        if (stream == null) {
            return null;
        }
        CharSequence text = stream.text();
        return text.subSequence(0, textLength < 0 ? text.length() : textLength).toString();
    }

    private static boolean contains(int[] ids, int id) {
        for (int candidate : ids) {
            if (candidate == id) {
                return true;
            }
        }
        return false;
    }

    private boolean findStopText() {
        if (stops == null) {
            return false;
        }
        CharSequence text = stream.text();
        if (numTokens > params.minTokens() && text.length() > searchedLength) {
            int start = stops.find(text, searchedLength);
            if (start >= 0) {
                reason = FinishReason.STOP;
                stopText = stops.matched();
                textLength = params.includeStopStrInOutput() ? start + stopText.length() : start;
                return true;
            }
        }
        searchedLength = text.length();
        return false;
    }

    private void end(FinishReason why) {
        reason = why;
        if (stream != null) {
            stream.finish();
            // Characters that only the end made whole may complete a stop text; a cancelled sample stays cancelled.
            if (why != FinishReason.ABORT && findStopText()) {
                stopTokenId = -1;
            }
        }
    }
}
