package io.millrace.bench.scenario;

import io.millrace.connect.HeldOpenSource;
import io.millrace.connect.file.JsonlPrompts;
import io.millrace.connect.file.JsonlSink;
import io.millrace.connect.json.JsonFields;
import io.millrace.engine.EngineConfig;
import io.millrace.job.cluster.ClusterException;
import io.millrace.job.cluster.ClusterOptions;
import io.millrace.job.cluster.EmbeddedCluster;
import io.millrace.job.cluster.JobWatch;
import io.millrace.job.cluster.StopSignal;
import io.millrace.job.topology.InferenceJob;
import io.millrace.operators.PipelineOptions;
import io.millrace.operators.tier.TierOptions;
import io.millrace.schemas.Sampling;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.runtime.jobgraph.JobGraph;

/**
 * The whole job as {@code millrace batch} runs it: prompt file, tokenising, ledger, RocksDB state, checkpoints to disk, part
 * files. Each file is a job of its own on a cluster that stays. One thread.
 */
final class ServingJob implements AutoCloseable {
    private final ClusterOptions options;
    private final EngineConfig engine;
    private final EmbeddedCluster cluster;

    /** What a served file came to. */
    record Served(SteadyWindow window, int numCheckpoints) {}

    ServingJob(EngineConfig engine, Path state, Duration checkpointInterval) {
        this.engine = engine;
        this.options = new ClusterOptions(state, 1, checkpointInterval, 0, 0);
        this.cluster = EmbeddedCluster.start(options);
    }

    /** Serves requests until slots stand empty; the rest is cancelled. */
    Served serve(ServedRequests requests, int numSlots) throws InterruptedException {
        Path state = options.stateDirectory();
        Path input = state.resolve("prompts.jsonl");
        try {
            requests.writeTo(input);
        } catch (IOException e) {
            throw new UncheckedIOException(input + " could not be written: " + e.getMessage(), e);
        }
        SteadyWindow window = new SteadyWindow(requests.count(), numSlots);
        JobID job = cluster.submit(graph(input, state.resolve("parts")), Optional.empty());
        StopSignal windowOver = new StopSignal();
        JobWatch.End end = new JobWatch(cluster, job).until(windowOver, counts -> {
            if (counts.numFailed() > 0) {
                throw new ClusterException("the measured job refused requests: " + counts.failedByCode());
            }
            window.observe(counts.generatedAtNanos(), counts.numCompleted(), counts.numGeneratedTokens());
            if (window.isOver()) {
                windowOver.request();
            }
        });
        if (end == JobWatch.End.FAILED || end == JobWatch.End.STOPPED) {
            throw cluster.failure(job, "measure again once it is mended");
        }
        int numCheckpoints = numCheckpoints(job);
        cluster.cancel(job);
        return new Served(window, numCheckpoints);
    }

    private JobGraph graph(Path input, Path parts) {
        PipelineOptions pipeline = new PipelineOptions(
                engine,
                TierOptions.NONE,
                Sampling.newBuilder().build(),
                0,
                1,
                1,
                options.stateDirectory().resolve("guard").toUri().toString(),
                false,
                Long.MAX_VALUE,
                completion -> 0L,
                Long.MAX_VALUE,
                letter -> 0L);
        return InferenceJob.graph(
                EmbeddedCluster.newEnvironment(options),
                "millrace bench",
                new HeldOpenSource<>(JsonlPrompts.source(input)),
                true,
                pipeline,
                JsonlSink.completions(parts, JsonFields.REPRODUCIBLE),
                JsonlSink.deadLetters(parts));
    }

    /** Checkpoints are numbered from 1, and the newest are kept. */
    private int numCheckpoints(JobID job) {
        Path directory = options.checkpointDirectory().resolve(job.toHexString());
        if (!Files.isDirectory(directory)) {
            return 0;
        }
        try (Stream<Path> files = Files.list(directory)) {
            return files.map(file -> file.getFileName().toString())
                    .filter(name -> name.startsWith("chk-"))
                    .filter(name -> Files.exists(directory.resolve(name).resolve("_metadata")))
                    .mapToInt(name -> Integer.parseInt(name.substring("chk-".length())))
                    .max()
                    .orElse(0);
        } catch (IOException e) {
            throw new UncheckedIOException(directory + " could not be read: " + e.getMessage(), e);
        }
    }

    @Override
    public void close() {
        cluster.close();
        try {
            EmbeddedCluster.deleteRecursively(options.stateDirectory());
        } catch (IOException e) {
            throw new UncheckedIOException(
                    options.stateDirectory() + " could not be deleted: " + e.getMessage() + "; delete it by hand", e);
        }
    }
}
