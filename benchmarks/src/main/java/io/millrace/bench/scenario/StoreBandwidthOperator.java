package io.millrace.bench.scenario;

import io.millrace.operators.tier.TaskTier;
import io.millrace.operators.tier.TierKind;
import io.millrace.operators.tier.TierOptions;
import io.millrace.prefix.TierConfig;
import java.io.File;
import java.io.Serializable;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Measures a store from within a task, on the task thread, at the first record; the result waits in this process for
 * {@link #takeResult}.
 */
final class StoreBandwidthOperator extends AbstractStreamOperator<Long> implements OneInputStreamOperator<Long, Long> {
    private static final long serialVersionUID = 1;
    private static final AtomicReference<StoreBandwidth.Rates> RESULT = new AtomicReference<>();

    private final Plan plan;

    /** What to measure; files lie below the directory. */
    record Plan(TierKind kind, long chunkBytes, int numChunks, String directory) implements Serializable {}

    StoreBandwidthOperator(Plan plan) {
        this.plan = plan;
    }

    /** A job of one record. */
    static JobGraph graph(StreamExecutionEnvironment environment, Plan plan) {
        environment
                .fromSequence(0, 0)
                .uid("one")
                .keyBy(number -> number, Types.LONG)
                .transform("store bandwidth", Types.LONG, new StoreBandwidthOperator(plan))
                .uid("store-bandwidth")
                .setParallelism(1)
                .sinkTo(new DiscardingSink<>())
                .uid("nowhere");
        return environment.getStreamGraph().getJobGraph();
    }

    /** The latest job's result, once; null while there is none. */
    static StoreBandwidth.Rates takeResult() {
        return RESULT.getAndSet(null);
    }

    @Override
    public void processElement(StreamRecord<Long> record) throws Exception {
        KeyedStateBackend<Long> backend = getKeyedStateBackend();
        Queue<Runnable> mails = new ConcurrentLinkedQueue<>();
        File workingDirectory =
                getContainingTask().getEnvironment().getTaskManagerInfo().getTmpWorkingDirectory();
        TaskTier tier = TaskTier.open(
                new TierOptions(plan.kind(), TierOptions.DEFAULT_CAPACITY_BYTES, Duration.ZERO, ""),
                TierConfig.DEFAULT,
                new TaskTier.Task(getKeyedStateStore(), backend, mails::add, 1, workingDirectory),
                nanos -> {});
        tier.setGeneration("bench", 0);
        try {
            StoreBandwidth bandwidth =
                    new StoreBandwidth(tier.store(), () -> runNext(mails), plan.chunkBytes(), plan.numChunks());
            RESULT.set(bandwidth.run(Path.of(plan.directory())));
        } finally {
            tier.store().close();
        }
    }

    private static void runNext(Queue<Runnable> mails) {
        Runnable mail = mails.poll();
        if (mail != null) {
            mail.run();
        }
    }
}
