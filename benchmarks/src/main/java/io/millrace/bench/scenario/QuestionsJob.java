package io.millrace.bench.scenario;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.connect.HeldOpenSource;
import io.millrace.connect.file.JsonlPrompts;
import io.millrace.connect.file.JsonlSink;
import io.millrace.connect.json.JsonFields;
import io.millrace.engine.EngineConfig;
import io.millrace.job.cluster.ClusterException;
import io.millrace.job.cluster.ClusterOptions;
import io.millrace.job.cluster.EmbeddedCluster;
import io.millrace.job.topology.InferenceJob;
import io.millrace.operators.PipelineOptions;
import io.millrace.operators.inference.JobCounts;
import io.millrace.operators.tier.TierKind;
import io.millrace.operators.tier.TierOptions;
import io.millrace.schemas.Sampling;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.runtime.jobgraph.JobGraph;

/** Answers a prompt file by the whole job, as {@code millrace batch} does, on a cluster of its own. One thread. */
final class QuestionsJob implements AutoCloseable {
    private static final long POLL_MILLIS = 20;
    private static final int POLLS_PER_STATUS = 25;
    private static final Duration CHECKPOINT_INTERVAL = Duration.ofSeconds(5);
    private static final Duration CHECKPOINT_TIMEOUT = Duration.ofMinutes(1);
    private static final long COMMIT_TIMEOUT_NANOS = 30_000_000_000L;

    private final ClusterOptions options;
    private final EmbeddedCluster cluster;

    /**
     * What came of it.
     *
     * @param seconds from the first record at the operator to the last answer
     * @param meanTtftMillis from submission to the engine to the first token, mean over questions
     * @param numPromptTokens of all prompts
     * @param numComputedTokens prompt tokens computed
     * @param numCachedTokens prompt tokens found in memory
     * @param numTierTokens prompt tokens loaded
     * @param numBytesWritten by the store
     * @param numBytesRead by the store
     * @param readNanos that it spent reading
     */
    record Answered(
            double seconds,
            double meanTtftMillis,
            long numPromptTokens,
            long numComputedTokens,
            long numCachedTokens,
            long numTierTokens,
            long numBytesWritten,
            long numBytesRead,
            long readNanos) {}

    /** Starts the cluster, for a job with such a tier. */
    QuestionsJob(Path state, TierKind kind) {
        options = new ClusterOptions(state, 1, CHECKPOINT_INTERVAL, 0, 0, kind == TierKind.STATE);
        cluster = EmbeddedCluster.start(options);
    }

    Answered answer(EngineConfig engine, TierKind kind, DocumentQuestions questions) throws InterruptedException {
        Path input = options.stateDirectory().resolve("prompts.jsonl");
        Path parts = options.stateDirectory().resolve("parts");
        try {
            questions.writeTo(input);
        } catch (IOException e) {
            throw new UncheckedIOException(input + " could not be written: " + e.getMessage(), e);
        }
        JobID job = cluster.submit(graph(engine, kind, input, parts), Optional.empty());
        int numQuestions = questions.lines().size();
        long start = -1;
        JobCounts counts = null;
        for (int poll = 0; counts == null || counts.numCompleted() < numQuestions; poll++) {
            Thread.sleep(POLL_MILLIS);
            if (poll % POLLS_PER_STATUS == 0 && cluster.status(job).isGloballyTerminalState()) {
                throw cluster.failure(job, "measure again once it is mended");
            }
            counts = cluster.counts(job).filter(JobCounts::allSubtasksReported).orElse(counts);
            if (counts != null && counts.numFailed() > 0) {
                throw new ClusterException("the measured job refused questions: " + counts.failedByCode());
            }
            if (start < 0 && counts != null && counts.numRecordsIn() > 0) {
                start = System.nanoTime();
            }
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        cluster.checkpoint(job, CHECKPOINT_TIMEOUT);
        double meanTtft = meanTtftMillis(parts, numQuestions);
        cluster.cancel(job);
        return new Answered(
                seconds,
                meanTtft,
                counts.numPromptTokens(),
                counts.numPrefillTokens(),
                counts.numCachedTokens(),
                counts.tier().numTierTokens(),
                counts.tier().numBytesWritten(),
                counts.tier().numBytesRead(),
                counts.tier().readNanos());
    }

    /** Of the committed part files, which follow their checkpoint shortly after. */
    private static double meanTtftMillis(Path parts, int numQuestions) throws InterruptedException {
        long deadline = System.nanoTime() + COMMIT_TIMEOUT_NANOS;
        while (true) {
            List<Double> millis = new ArrayList<>();
            try (Stream<Path> files = Files.list(parts)) {
                for (Path file : files.filter(QuestionsJob::isCommitted).toList()) {
                    for (String line : Files.readAllLines(file)) {
                        JsonNode completion = new ObjectMapper().readTree(line);
                        millis.add(completion.get("metrics").get("ttft_ms").asDouble());
                    }
                }
            } catch (IOException e) {
                throw new UncheckedIOException(parts + " could not be read: " + e.getMessage(), e);
            }
            if (millis.size() == numQuestions) {
                return millis.stream()
                        .mapToDouble(Double::doubleValue)
                        .average()
                        .orElseThrow();
            }
            if (System.nanoTime() - deadline > 0) {
                throw new ClusterException("of " + numQuestions + " answers " + millis.size()
                        + " were committed within half a minute of their checkpoint");
            }
            Thread.sleep(POLL_MILLIS);
        }
    }

    private static boolean isCommitted(Path file) {
        String name = file.getFileName().toString();
        return name.startsWith("completions") && name.endsWith(".jsonl");
    }

    private JobGraph graph(EngineConfig engine, TierKind kind, Path input, Path parts) {
        TierOptions tier = new TierOptions(kind, TierOptions.DEFAULT_CAPACITY_BYTES, Duration.ZERO, "");
        PipelineOptions pipeline = new PipelineOptions(
                engine,
                tier,
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
                JsonlSink.completions(parts, JsonFields.ALL),
                JsonlSink.deadLetters(parts));
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
