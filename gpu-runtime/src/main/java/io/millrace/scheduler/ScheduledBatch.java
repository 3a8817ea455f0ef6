package io.millrace.scheduler;

import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * What one step computes. Reused from step to step; valid until the next schedule. The runner may reorder the sequences.
 */
public final class ScheduledBatch {
    private final List<ScheduledSequence> sequences = new ArrayList<>();
    private int numTokens;
    private int numCopies;
    private int[] copySources = new int[16];
    private int[] copyDestinations = new int[16];

    public List<ScheduledSequence> sequences() {
        return sequences;
    }

    public boolean isEmpty() {
        return sequences.isEmpty();
    }

    public int numTokens() {
        return numTokens;
    }

    /** Over all tokens of the step: what their attention reads, in positions. */
    public double sumPositions() {
        double sum = 0;
        for (int i = 0; i < sequences.size(); i++) {
            ScheduledSequence scheduled = sequences.get(i);
            double first = scheduled.firstPosition();
            double end = scheduled.endPosition();
            sum += (end * (end - 1) - first * (first - 1)) / 2;
        }
        return sum;
    }

    public int numCopies() {
        return numCopies;
    }

    /** Blocks to copy before the step, valid to numCopies; copies are made in this order. */
    public int[] copySources() {
        return copySources;
    }

    /** Where to, valid to numCopies. */
    public int[] copyDestinations() {
        return copyDestinations;
    }

    void clear(boolean copiesToo) {
        sequences.clear();
        numTokens = 0;
        if (copiesToo) {
            numCopies = 0;
        }
    }

    void add(Sequence sequence, int endPosition, List<Sequence> forks) {
        ScheduledSequence scheduled = new ScheduledSequence(sequence, sequence.numComputedTokens(), endPosition, forks);
        sequences.add(scheduled);
        numTokens += scheduled.numTokens();
    }

    /** Takes the proposed tokens out of a sequence's share. */
    void dropProposals(int place) {
        ScheduledSequence scheduled = sequences.get(place);
        Sequence sequence = scheduled.sequence();
        numTokens -= scheduled.numProposedTokens();
        sequence.keepProposals(0);
        sequences.set(
                place,
                new ScheduledSequence(sequence, scheduled.firstPosition(), sequence.numTokens(), scheduled.forks()));
    }

    void addCopy(int source, int destination) {
        if (numCopies == copySources.length) {
            copySources = Arrays.copyOf(copySources, 2 * numCopies);
            copyDestinations = Arrays.copyOf(copyDestinations, 2 * numCopies);
        }
        copySources[numCopies] = source;
        copyDestinations[numCopies++] = destination;
    }

    void remove(SequenceGroup group) {
        sequences.removeIf(scheduled -> scheduled.sequence().group() == group);
        numTokens = 0;
        for (ScheduledSequence scheduled : sequences) {
            numTokens += scheduled.numTokens();
        }
    }
}
