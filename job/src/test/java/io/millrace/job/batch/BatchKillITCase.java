package io.millrace.job.batch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.job.ChildJvm;
import io.millrace.job.FakeJobs;
import io.millrace.job.cluster.ClusterOptions;
import io.millrace.job.cluster.RestorePoint;
import io.millrace.job.cluster.RestorePoints;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(300)
class BatchKillITCase {

    @TempDir
    Path directory;

    @Test
    void killedAnywhereTheSameCommandGivesTheSameFile() throws Exception {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        FakeJobs.engine(directory.resolve("model"));
        FakeJobs.write(directory.resolve("in.jsonl"), FakeJobs.promptLines(60, 3));
        try (ChildJvm undisturbed = ChildJvm.start(directory, 0, arguments("undisturbed.jsonl"))) {
            assertEquals(0, undisturbed.await(), undisturbed.printed());
        }

        Path state = BatchOptions.defaultStateDirectory(directory.resolve("out.jsonl"));
        ClusterOptions cluster = new ClusterOptions(state, 1, Duration.ofMillis(200), 0, 0);
        String message = "seed " + seed;
        // Before the first checkpoint, twice in the middle, and in the tail: at any moment from the last savepoint on.
        try (ChildJvm child = ChildJvm.start(directory, 10, arguments("out.jsonl"))) {
            child.awaitWhileAlive("the manifest", () -> Files.exists(state.resolve("manifest.json")));
            Thread.sleep(random.nextInt(1000));
            child.kill();
        }
        for (int kill = 0; kill < 2; kill++) {
            long before = newestId(cluster);
            try (ChildJvm child = ChildJvm.start(directory, 10, arguments("out.jsonl"))) {
                child.awaitWhileAlive("two more checkpoints", () -> newestId(cluster) >= before + 2);
                Thread.sleep(random.nextInt(200));
                child.kill();
            }
        }
        try (ChildJvm child = ChildJvm.start(directory, 0, arguments("out.jsonl"))) {
            child.awaitWhileAlive("the last savepoint", () -> hasSavepoint(cluster));
            Thread.sleep(random.nextInt(100));
            child.kill();
        }
        try (ChildJvm child = ChildJvm.start(directory, 0, arguments("out.jsonl"))) {
            assertEquals(0, child.await(), () -> message);
        }

        assertArrayEquals(
                Files.readAllBytes(directory.resolve("undisturbed.jsonl")),
                Files.readAllBytes(directory.resolve("out.jsonl")),
                message);
        JsonNode summary = new ObjectMapper()
                .readTree(directory.resolve("out.jsonl.summary").toFile());
        assertTrue(summary.path("restored_tokens").asLong() > 0, message + summary);
        assertEquals(60, summary.path("completed").asInt(), message);
    }

    private List<String> arguments(String output) {
        return List.of(
                "batch",
                "--device=fake",
                "--model=" + directory.resolve("model"),
                "--input=" + directory.resolve("in.jsonl"),
                "--output=" + directory.resolve(output),
                "--summary=" + directory.resolve(output + ".summary"),
                "--kv-cache-memory-bytes=1Mi",
                "--max-num-seqs=16",
                "--checkpoint-interval=200ms");
    }

    private static long newestId(ClusterOptions cluster) {
        return RestorePoints.newest(cluster).map(RestorePoint::checkpointId).orElse(0L);
    }

    private static boolean hasSavepoint(ClusterOptions cluster) {
        String[] savepoints = cluster.savepointDirectory().toFile().list();
        return savepoints != null && savepoints.length > 0
                || Files.exists(cluster.stateDirectory().resolve("drained.json"));
    }
}
