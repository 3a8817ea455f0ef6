package io.millrace.sequence;

import io.millrace.sampling.SamplingParams;
import io.millrace.sampling.TokenLogprobs;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;

/**
 * The samples of one request: they share the prompt, which is computed once. Engine thread only.
 */
public final class SequenceGroup implements Comparable<SequenceGroup> {
    /** Everything about a group that does not change. */
    public record Settings(
            String id,
            int[] promptTokenIds,
            SamplingParams sampling,
            int priority,
            long arrival,
            String salt,
            boolean promptScoresNeeded,
            int[] suppressedTokenIds) {
        /**
         * Settings of a group.
         *
         * @param id the request's
         * @param promptTokenIds not copied
         * @param sampling of all samples
         * @param priority lower is served earlier
         * @param arrival increasing number; ties of priority go by it
         * @param salt keeps apart what must not share KV
         * @param promptScoresNeeded whether log probabilities of the prompt are to be computed
         * @param suppressedTokenIds ids not to be drawn before min_tokens
         */
        public Settings {
            Objects.requireNonNull(id);
            Objects.requireNonNull(sampling);
            Objects.requireNonNull(salt);
            if (promptTokenIds.length == 0) {
                throw new IllegalArgumentException("request " + id + " has an empty prompt");
            }
        }
    }

    private final Settings settings;
    private final List<Sequence> sequences = new ArrayList<>();
    private int numWaiting;
    private boolean loadingPrefix;
    private int numCachedTokens = -1;
    private int numTierTokens;
    private TokenLogprobs[] promptScores; // [numPromptTokens]; null when none are needed (any more)
    private int numScored;

    public SequenceGroup(Settings settings) {
        this.settings = settings;
        if (settings.promptScoresNeeded()) {
            promptScores = new TokenLogprobs[numPromptTokens()];
        }
    }

    /** Adds a sample with the output it has already. */
    public Sequence addSequence(int sample, int[] outputTokenIds) {
        Sequence sequence = new Sequence(this, sample, outputTokenIds);
        sequences.add(sequence);
        numWaiting++;
        return sequence;
    }

    public String id() {
        return settings.id();
    }

    public int[] promptTokenIds() {
        return settings.promptTokenIds();
    }

    public int numPromptTokens() {
        return settings.promptTokenIds().length;
    }

    public SamplingParams sampling() {
        return settings.sampling();
    }

    public int priority() {
        return settings.priority();
    }

    public String salt() {
        return settings.salt();
    }

    /** Ids that must not be drawn before min_tokens: every EOS and stop id. */
    public int[] suppressedTokenIds() {
        return settings.suppressedTokenIds();
    }

    /** The samples that have not finished, by place. */
    public List<Sequence> sequences() {
        return Collections.unmodifiableList(sequences);
    }

    public int numWaiting() {
        return numWaiting;
    }

    void addWaiting(int change) {
        numWaiting += change;
    }

    void remove(Sequence sequence) {
        sequences.remove(sequence);
    }

    /** Whether KV of the prompt is on its way from a lower tier: then it is computed only where nothing else can be. */
    public boolean isLoadingPrefix() {
        return loadingPrefix;
    }

    public void setLoadingPrefix(boolean loading) {
        loadingPrefix = loading;
    }

    /** Prompt tokens whose KV was found when the group was first admitted; -1 before. */
    public int numCachedTokens() {
        return numCachedTokens;
    }

    public void setNumCachedTokens(int count) {
        numCachedTokens = count;
    }

    /** Prompt tokens whose KV came from a lower tier and was used. */
    public int numTierTokens() {
        return numTierTokens;
    }

    public void addTierTokens(int count) {
        numTierTokens += count;
    }

    /** Whether prompt positions remain to be scored: such a prompt is computed without reading the cache. */
    public boolean needsPromptScores() {
        return promptScores != null;
    }

    /** Whether the position's token (predicted by the one before) has no score yet. */
    public boolean needsScore(int position) {
        return promptScores != null && position > 0 && position < promptScores.length && promptScores[position] == null;
    }

    public void setScore(int position, TokenLogprobs score) {
        if (promptScores[position] == null) {
            numScored++;
        }
        promptScores[position] = score;
    }

    /** The prompt's scores once all positions but the first have one, and only once; else null. */
    public TokenLogprobs[] takePromptScores() {
        if (promptScores == null || numScored < promptScores.length - 1) {
            return null;
        }
        TokenLogprobs[] complete = promptScores;
        promptScores = null;
        return complete;
    }

    /** Order of service: priority (lower first), then arrival. */
    @Override
    public int compareTo(SequenceGroup other) {
        int byPriority = Integer.compare(priority(), other.priority());
        return byPriority != 0 ? byPriority : Long.compare(settings.arrival(), other.settings.arrival());
    }

    @Override
    public boolean equals(Object other) {
        return this == other;
    }

    @Override
    public int hashCode() {
        return System.identityHashCode(this);
    }

    @Override
    public String toString() {
        return "request " + id();
    }
}
