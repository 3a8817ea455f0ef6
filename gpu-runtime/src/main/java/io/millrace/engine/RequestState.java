package io.millrace.engine;

import io.millrace.sequence.SequenceGroup;

/** A request in the engine: its group of sequences and what its samples said so far. Engine thread only. */
final class RequestState {
    private final SequenceGroup group;
    private final SampleOutput[] outputs; // [n]; null for samples that finished before the request came
    private final long submittedNanos;
    private long scheduledNanos;

    RequestState(SequenceGroup group, SampleOutput[] outputs, long submittedNanos) {
        this.group = group;
        this.outputs = outputs;
        this.submittedNanos = submittedNanos;
    }

    SequenceGroup group() {
        return group;
    }

    SampleOutput output(int sample) {
        return outputs[sample];
    }

    /** Notes a step that computes the prompt; the first one ends the time in the queue. */
    void markScheduled(long nanos) {
        if (scheduledNanos == 0) {
            scheduledNanos = nanos;
        }
    }

    /** How a sample ended; its output must have. */
    StepReport.Finished finished(int sample) {
        SampleOutput output = outputs[sample];
        return new StepReport.Finished(
                output.reason(),
                output.stopText(),
                output.stopTokenId(),
                output.text(),
                Math.max(0, group.numCachedTokens()),
                group.numTierTokens(),
                since(scheduledNanos),
                since(output.firstTokenNanos()),
                output.decodeNanos());
    }

    private long since(long nanos) {
        return nanos == 0 ? 0 : nanos - submittedNanos;
    }
}
