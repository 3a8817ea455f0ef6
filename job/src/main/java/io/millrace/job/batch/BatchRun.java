package io.millrace.job.batch;

import com.fasterxml.jackson.databind.JsonNode;
import io.millrace.connect.HeldOpenSource;
import io.millrace.connect.file.JsonlMerge;
import io.millrace.connect.file.JsonlPrompts;
import io.millrace.connect.file.JsonlSink;
import io.millrace.connect.json.JsonFields;
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
import io.millrace.job.topology.InferenceJob;
import io.millrace.model.ModelDirectory;
import io.millrace.operators.PipelineOptions;
import io.millrace.operators.inference.JobCounts;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.avro.Schema;
import org.apache.flink.api.common.JobID;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One start of a batch, which takes it from wherever the last start left it to its end:
 *
 * <ol>
 *   <li>claim the state directory: lock, and manifest of input, model and options;
 *   <li>run the job from the newest checkpoint, until every record is answered;
 *   <li>stop it with a savepoint, which commits the last part files, and note its counts ({@code drained.json});
 *   <li>merge the part files into the output, write the summary, note that all is done ({@code done.json}).
 * </ol>
 *
 * Every step is noted only after it is complete and can be repeated, so a kill between any two costs nothing but time.
 */
public final class BatchRun {

    private static final Logger LOG = LoggerFactory.getLogger(BatchRun.class);
    private static final Duration STOP_TIMEOUT = Duration.ofMinutes(10);
    private static final int NUM_STOP_ATTEMPTS = 3;

    private final BatchOptions options;
    private final PrintStream out;
    private final boolean terminal;
    private final StopSignal stop;
    private final Path state;

    /**
     * @param out where progress and messages go
     * @param terminal whether lines can be rewritten there
     * @param stop ends the run early, after a checkpoint
     */
    public BatchRun(BatchOptions options, PrintStream out, boolean terminal, StopSignal stop) {
        this.options = options;
        this.out = out;
        this.terminal = terminal;
        this.stop = stop;
        this.state = options.cluster().stateDirectory();
    }

    /**
     * Runs the batch.
     *
     * @return true when it is done, false when it was stopped and can be resumed
     * @throws io.millrace.job.state.StateException if the state directory is in use or belongs to another batch
     * @throws io.millrace.model.InvalidModelException if the model cannot be run
     * @throws ClusterException if the job fails for good
     */
    @SuppressWarnings("try") // the lock is held, not used
    public boolean run() throws InterruptedException {
        try (RunLock lock = RunLock.acquire(state)) {
            InputFile input = InputFile.read(options.input());
            Optional<RestorePoint> from = RestorePoints.newest(options.cluster());
            boolean fresh = manifest(input).claim(state, from.isPresent() || Files.exists(file("drained.json")));
            if (Files.exists(file("done.json")) && outputsExist()) {
                out.println("batch is done already: " + options.output() + " is complete; to run it again, delete "
                        + state);
                return true;
            }
            if (!Files.exists(file("drained.json"))) {
                if (fresh) {
                    // A batch of other facts that failed at once may have left its own.
                    discard(file("totals.json"));
                    discard(file("guard"));
                }
                RunTotals totals = RunTotals.open(state);
                Optional<JobCounts> counts = drain(input, totals, fresh, from);
                if (counts.isEmpty()) {
                    return false;
                }
                AtomicFiles.write(file("drained.json"), Summary.of(counts.get(), totals));
            }
            finish();
            return true;
        }
    }

    private Manifest manifest(InputFile input) {
        Map<String, String> facts = new LinkedHashMap<>();
        facts.put("input path", options.input().toString());
        facts.put("input size", input.sizeBytes() + " bytes");
        facts.put("input content (sha256)", input.sha256());
        ModelDirectory model = ModelDirectory.open(Path.of(options.engine().model()));
        facts.put("model content (fingerprint)", model.fingerprint());
        facts.put("--device", options.engine().device());
        facts.put("--dtype", options.engine().dtype().optionName());
        facts.put("--kv-cache-dtype", options.engine().kvCacheDtype().optionName());
        facts.put("--max-model-len", Integer.toString(options.engine().maxModelLen()));
        facts.put("--kv-cache-memory-bytes", Long.toString(options.engine().kvCacheMemoryBytes()));
        facts.put("--block-size", Integer.toString(options.engine().blockSize()));
        if (options.engine().tier() != null && options.engine().tier().format().isLossy()) {
            // Changes results; the tier as such does not.
            facts.put("--tier-kv-dtype", options.engine().tier().format().optionName());
        }
        facts.put("--logprobs-mode", options.engine().logprobsMode().name().toLowerCase(java.util.Locale.ROOT));
        facts.put("--seed", Long.toString(options.seed()));
        for (Schema.Field setting : options.samplingDefaults().getSchema().getFields()) {
            Object value = options.samplingDefaults().get(setting.pos());
            if (value != null) {
                facts.put("--" + setting.name().replace('_', '-'), value.toString());
            }
        }
        return Manifest.of(facts);
    }

    private boolean outputsExist() {
        return Files.exists(options.output())
                && options.summary().map(Files::exists).orElse(true);
    }

    /** Runs the job until every record is answered and committed; empty when it was asked to stop before. */
    private Optional<JobCounts> drain(InputFile input, RunTotals totals, boolean fresh, Optional<RestorePoint> from)
            throws InterruptedException {
        from.ifPresentOrElse(
                point -> out.println("resuming from " + point.describe()),
                () -> out.println(
                        fresh
                                ? "starting: " + input.numRecords() + " records in " + options.input()
                                : "starting from the beginning: the last start left no complete checkpoint"));
        if (from.isEmpty()) {
            // Part files of a start that completed no checkpoint belong to nothing.
            discard(options.partsDirectory());
        }
        try (EmbeddedCluster cluster = EmbeddedCluster.start(options.cluster())) {
            out.println("Flink web UI: " + cluster.webAddress());
            JobID job = cluster.submit(graph(), from);
            JobWatch watch = new JobWatch(cluster, job);
            Progress progress = new Progress(out, terminal, input.numRecords());
            boolean[] restoreTold = {from.isEmpty()};
            JobWatch.End end = watch.until(stop, counts -> {
                totals.update(counts);
                if (!restoreTold[0]) {
                    restoreTold[0] = true;
                    progress.say(restored(from.get(), counts));
                }
                progress.update(counts);
            });
            watch.lastCounts().ifPresent(progress::finish);
            watch.lastCounts()
                    .filter(counts -> counts.tier().isUsed())
                    .ifPresent(counts -> out.println(TierSummary.line(counts)));
            totals.save();
            return switch (end) {
                case ANSWERED -> {
                    commitAll(cluster, job);
                    yield watch.lastCounts();
                }
                case STOP_REQUESTED -> {
                    stopEarly(cluster, job);
                    yield Optional.empty();
                }
                case STOPPED -> {
                    out.println("the job was stopped from outside; the same command goes on with it");
                    yield Optional.empty();
                }
                case FAILED -> throw cluster.failure(job, "the same command goes on from its last checkpoint");
            };
        }
    }

    private JobGraph graph() {
        PipelineOptions pipeline = new PipelineOptions(
                options.engine(),
                options.tier(),
                options.samplingDefaults(),
                options.seed(),
                1,
                options.cluster().parallelism(),
                file("guard").toUri().toString(),
                options.allowFingerprintChange(),
                Long.MAX_VALUE,
                completion -> 0L,
                Long.MAX_VALUE,
                letter -> 0L);
        return InferenceJob.graph(
                EmbeddedCluster.newEnvironment(options.cluster()),
                "millrace batch " + options.input().getFileName(),
                new HeldOpenSource<>(JsonlPrompts.source(options.input())),
                true,
                pipeline,
                JsonlSink.completions(options.partsDirectory(), JsonFields.REPRODUCIBLE),
                JsonlSink.deadLetters(options.partsDirectory()));
    }

    private static String restored(RestorePoint from, JobCounts counts) {
        return "resumed from " + (from.savepoint() ? "savepoint " : "checkpoint ") + from.checkpointId() + ": "
                + (counts.numCompleted() + counts.numFailed()) + " records were done, "
                + counts.numRestoredRequests() + " in flight with " + counts.numRestoredTokens()
                + " tokens restored";
    }

    /** Stops the job with a savepoint: when it is stopped, every part file is committed. */
    private void commitAll(EmbeddedCluster cluster, JobID job) {
        for (int attempt = 1; ; attempt++) {
            try {
                cluster.stopWithSavepoint(job, STOP_TIMEOUT);
                return;
            } catch (ClusterException e) {
                if (attempt == NUM_STOP_ATTEMPTS || cluster.status(job).isGloballyTerminalState()) {
                    throw new ClusterException(
                            e.getMessage() + "; every record is answered: the same command commits the results", e);
                }
                LOG.warn("{}; trying again", e.getMessage());
            }
        }
    }

    private void stopEarly(EmbeddedCluster cluster, JobID job) {
        out.println("stopping: one checkpoint, then the end");
        try {
            long id = cluster.checkpoint(job, STOP_TIMEOUT);
            out.println("checkpoint " + id + " is complete; the same command goes on from it");
        } catch (ClusterException e) {
            out.println(e.getMessage() + "; the same command goes on from the checkpoint before");
        }
        cluster.cancel(job);
    }

    private static void discard(Path directory) {
        try {
            EmbeddedCluster.deleteRecursively(directory);
        } catch (IOException e) {
            throw new UncheckedIOException(directory + " could not be deleted: " + e.getMessage(), e);
        }
    }

    /** From drained to done; every step may be repeated. */
    private void finish() {
        JsonNode summary = AtomicFiles.read(file("drained.json")).orElseThrow();
        try {
            Files.createDirectories(options.output().getParent());
            Files.createDirectories(options.partsDirectory()); // an empty input leaves none
            JsonlMerge.merge(options.partsDirectory(), options.output());
            if (options.summary().isPresent()) {
                AtomicFiles.write(options.summary().get(), summary);
            }
            AtomicFiles.write(file("done.json"), summary);
            EmbeddedCluster.deleteRecursively(options.cluster().checkpointDirectory());
            EmbeddedCluster.deleteRecursively(options.cluster().savepointDirectory());
            EmbeddedCluster.deleteRecursively(options.cluster().temporaryDirectory());
        } catch (IOException e) {
            throw new UncheckedIOException(
                    "the results could not be written: " + e.getMessage() + "; the same command tries again", e);
        }
        out.printf(
                "done: %,d records: %,d completed, %,d failed %s; %,d completions of %,d tokens in %.1f s%n",
                summary.path("input_records").asLong(),
                summary.path("completed").asLong(),
                summary.path("failed").asLong(),
                summary.path("failed_by_code"),
                summary.path("completions").asLong(),
                summary.path("completion_tokens").asLong(),
                summary.path("seconds").asDouble());
        out.println("output: " + options.output());
        options.summary().ifPresent(path -> out.println("summary: " + path));
    }

    private Path file(String name) {
        return state.resolve(name);
    }
}
