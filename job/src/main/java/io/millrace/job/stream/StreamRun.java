package io.millrace.job.stream;

import io.millrace.job.cluster.ClusterException;
import io.millrace.job.cluster.EmbeddedCluster;
import io.millrace.job.cluster.JobWatch;
import io.millrace.job.cluster.RestorePoint;
import io.millrace.job.cluster.RestorePoints;
import io.millrace.job.cluster.StopSignal;
import io.millrace.job.progress.Progress;
import io.millrace.job.progress.TierSummary;
import io.millrace.job.state.AtomicFiles;
import io.millrace.job.state.Manifest;
import io.millrace.job.state.RunLock;
import io.millrace.job.state.StateException;
import io.millrace.model.ModelDirectory;
import io.millrace.operators.inference.JobCounts;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.flink.api.common.JobID;
import org.apache.flink.runtime.jobgraph.JobGraph;

/**
 * One start of a stream: goes on from the newest checkpoint or savepoint of its state directory, and runs until it is stopped, or,
 * with a stop position, until everything before it is answered and committed.
 */
public final class StreamRun {

    private static final Duration STOP_TIMEOUT = Duration.ofMinutes(10);

    private final StreamOptions options;
    private final PrintStream out;
    private final boolean terminal;
    private final long numExpected;
    private final StopSignal stop;
    private final Path state;

    /**
     * @param out where progress and messages go
     * @param terminal whether lines can be rewritten there
     * @param numExpected records in all, for the progress; -1 where nobody knows
     * @param stop ends the run after a checkpoint
     */
    public StreamRun(StreamOptions options, PrintStream out, boolean terminal, long numExpected, StopSignal stop) {
        this.options = options;
        this.out = out;
        this.terminal = terminal;
        this.numExpected = numExpected;
        this.stop = stop;
        this.state = options.cluster().stateDirectory();
    }

    /**
     * How a run ended.
     *
     * @param answered whether everything before the stop position is answered and committed
     * @param counts the last counts; empty if there were none
     */
    public record Outcome(boolean answered, Optional<JobCounts> counts) {}

    /**
     * Runs the stream until it is stopped or done.
     *
     * @throws StateException if the state directory is in use, belongs to another stream, or to one that is done
     * @throws io.millrace.connect.kafka.KafkaSetupException if the brokers would fail the job
     * @throws ClusterException if the job fails for good
     */
    @SuppressWarnings("try") // the lock is held, not used
    public Outcome run() throws InterruptedException {
        try (RunLock lock = RunLock.acquire(state)) {
            refuseWhenDone();
            JobGraph graph = new KafkaEnds(options).checkedGraph();
            Optional<RestorePoint> from = RestorePoints.newest(options.cluster());
            manifest().claim(state, from.isPresent());
            out.println(from.map(point -> "going on from " + point.describe())
                    .orElse("starting at the " + options.from().name().toLowerCase(java.util.Locale.ROOT)
                            + " offsets of " + options.promptsTopic()));
            try (EmbeddedCluster cluster = EmbeddedCluster.start(options.cluster())) {
                JobID job = cluster.submit(graph, from);
                new RunFile(
                                cluster.webAddress(),
                                job.toHexString(),
                                ProcessHandle.current().pid())
                        .write(state);
                out.println("running; Flink web UI: " + cluster.webAddress());
                return follow(cluster, job, from);
            } finally {
                RunFile.delete(state);
            }
        }
    }

    private Outcome follow(EmbeddedCluster cluster, JobID job, Optional<RestorePoint> from)
            throws InterruptedException {
        JobWatch watch = new JobWatch(cluster, job);
        Progress progress = new Progress(out, terminal, numExpected);
        boolean[] restoreTold = {from.isEmpty()};
        JobWatch.End end = watch.until(stop, counts -> {
            if (!restoreTold[0]) {
                restoreTold[0] = true;
                progress.say("%d requests were in flight; %d of their tokens are restored"
                        .formatted(counts.numRestoredRequests(), counts.numRestoredTokens()));
            }
            progress.update(counts);
        });
        watch.lastCounts().ifPresent(progress::finish);
        watch.lastCounts()
                .filter(counts -> counts.tier().isUsed())
                .ifPresent(counts -> out.println(TierSummary.line(counts)));
        switch (end) {
            case ANSWERED -> commitAll(cluster, job);
            case STOP_REQUESTED -> stopEarly(cluster, job);
            case STOPPED -> out.println("the job was stopped; the next start goes on from where it was");
            case FAILED -> throw cluster.failure(job, "the next start goes on from its last checkpoint");
        }
        return new Outcome(end == JobWatch.End.ANSWERED, watch.lastCounts());
    }

    private void commitAll(EmbeddedCluster cluster, JobID job) {
        // Offsets are committed when a checkpoint completes, without waiting; the savepoint gives this one's time to
        // arrive.
        cluster.checkpoint(job, STOP_TIMEOUT);
        cluster.stopWithSavepoint(job, STOP_TIMEOUT);
        AtomicFiles.write(doneFile(), Map.of("until", "latest"));
        out.println("everything up to the stop offsets is answered");
    }

    private void stopEarly(EmbeddedCluster cluster, JobID job) {
        out.println("stopping: one checkpoint, then the end");
        try {
            long id = cluster.checkpoint(job, STOP_TIMEOUT);
            out.println("checkpoint " + id + " is complete; the next start goes on from it");
        } catch (ClusterException e) {
            out.println(e.getMessage() + "; the next start goes on from the checkpoint before");
        }
        if (!cluster.status(job).isGloballyTerminalState()) {
            cluster.cancel(job);
        }
    }

    private void refuseWhenDone() {
        if (Files.exists(doneFile())) {
            throw new StateException(
                    "the stream of state directory " + state + " ran --until latest and is done; to answer"
                            + " what has come since, choose another with --state and begin with --from committed");
        }
    }

    private Path doneFile() {
        return state.resolve("done.json");
    }

    /** What must not change between starts that go on from each other's checkpoints. */
    private Manifest manifest() {
        Map<String, String> facts = new LinkedHashMap<>();
        facts.put("--prompts", options.promptsTopic());
        facts.put("--completions", options.completionsTopic());
        facts.put("--dead-letters", options.deadLettersTopic());
        facts.put("--group", options.group());
        facts.put("--format", options.format().name().toLowerCase(java.util.Locale.ROOT));
        facts.put(
                "--until",
                options.until()
                        .map(at -> at.name().toLowerCase(java.util.Locale.ROOT))
                        .orElse("never"));
        facts.put("--device", options.engine().device());
        facts.put(
                "model content (fingerprint)",
                ModelDirectory.open(Path.of(options.engine().model())).fingerprint());
        return Manifest.of(facts);
    }
}
