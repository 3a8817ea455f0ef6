package io.millrace.connect;

import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.PromptEnvelope;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Stands in for inference: a completion for each of the prompt's samples, a dead letter for a bad record. Slow enough
 * for checkpoints to fall in between, and fails as often as it is told.
 */
public final class Results extends ProcessFunction<PromptEnvelope, Completion> {
    private static final long serialVersionUID = 1L;
    public static final TypeInformation<Completion> COMPLETIONS = new AvroTypeInfo<>(Completion.class);
    public static final OutputTag<DeadLetter> DEAD_LETTERS =
            new OutputTag<>("dead letters", new AvroTypeInfo<>(DeadLetter.class));
    /** Counts over all attempts; the job runs in the test's JVM. */
    private static final AtomicInteger NUM_SEEN = new AtomicInteger();

    private static final AtomicInteger NUM_FAILURES_LEFT = new AtomicInteger();
    private static volatile int failEvery;

    public static void failTimes(int numFailures, int everyRecords) {
        NUM_SEEN.set(0);
        failEvery = everyRecords;
        NUM_FAILURES_LEFT.set(numFailures);
    }

    public static int numFailuresLeft() {
        return NUM_FAILURES_LEFT.get();
    }

    @Override
    public void processElement(PromptEnvelope envelope, Context context, Collector<Completion> out)
            throws InterruptedException {
        Thread.sleep(1);
        if (NUM_SEEN.incrementAndGet() % failEvery == 0
                && NUM_FAILURES_LEFT.getAndUpdate(n -> Math.max(n - 1, 0)) > 0) {
            throw new IllegalStateException("failing on purpose");
        }
        if (envelope.getError() != null) {
            context.output(DEAD_LETTERS, WireRecords.deadLetter(envelope));
            return;
        }
        int n = envelope.getPrompt().getSampling().getN();
        for (int index = 0; index < n; index++) {
            Completion completion = WireRecords.smallCompletion(envelope.getRequestId(), index, envelope.getSource());
            completion.setHeaders(envelope.getHeaders());
            out.collect(completion);
        }
    }
}
