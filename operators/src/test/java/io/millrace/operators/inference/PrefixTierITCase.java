package io.millrace.operators.inference;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.KvFormat;
import io.millrace.engine.EngineConfig;
import io.millrace.operators.PipelineOptions;
import io.millrace.operators.tier.TierKind;
import io.millrace.operators.tier.TierOptions;
import io.millrace.prefix.TierConfig;
import io.millrace.schemas.Completion;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The prefix tier in keyed state inside of a running job, and how requests are routed to it. */
class PrefixTierITCase {
    private static final Duration TIMEOUT = Duration.ofMinutes(2);
    private static final Duration CHECKPOINT_INTERVAL = Duration.ofMillis(200);
    private static final String STEP_MILLIS = "millrace.fake.stepMillis";
    private static final String TOKEN_MICROS = "millrace.fake.tokenMicros";
    private static final int CHUNK_TOKENS = 128;

    /** Room for two documents of three chunks and what is asked about them. */
    private static final int KV_TOKENS = 1024;

    /** Requests whose first completion fails the job, once each. */
    private static final Set<String> FAILS_AT = ConcurrentHashMap.newKeySet();

    @TempDir
    Path directory;

    @AfterEach
    void fullSpeed() {
        System.clearProperty(STEP_MILLIS);
        System.clearProperty(TOKEN_MICROS);
    }

    /** A chunk takes longer to compute than a busy machine's disk and threads take to load it. */
    private static void loadingPays() {
        System.setProperty(STEP_MILLIS, "20");
        System.setProperty(TOKEN_MICROS, "300");
    }

    private static PipelineOptions withTier(Path place, int kvTokens, int parallelism) {
        return withTier(TierKind.STATE, place, kvTokens, parallelism);
    }

    private static PipelineOptions withTier(TierKind kind, Path place, int kvTokens, int parallelism) {
        TierConfig config = new TierConfig(KvFormat.AS_COMPUTED, CHUNK_TOKENS, true, 64 << 20, 10_000);
        EngineConfig engine = TestJob.fake(4, kvTokens).withTier(config);
        return TestJob.options(place, engine, new TierOptions(kind, 1L << 30, Duration.ZERO, ""), parallelism);
    }

    /** Documents of three chunks, each asked about in every round. */
    private static List<String> documentQuestions(long seed, int numDocuments, int numRounds) {
        List<int[]> documents = new ArrayList<>();
        Random random = new Random(seed);
        for (int d = 0; d < numDocuments; d++) {
            documents.add(random.ints(3 * CHUNK_TOKENS, 3, 600).toArray());
        }
        List<String> lines = new ArrayList<>();
        for (int round = 0; round < numRounds; round++) {
            for (int d = 0; d < numDocuments; d++) {
                lines.add(question("r" + round + "-d" + d, documents.get(d), random));
            }
        }
        return lines;
    }

    private static String question(String id, int[] document, Random random) {
        int[] ids = Arrays.copyOf(document, document.length + 20);
        for (int i = document.length; i < ids.length; i++) {
            ids[i] = 3 + random.nextInt(600);
        }
        return TestPrompts.line(id, ids, "\"max_tokens\":8,\"n\":2");
    }

    private Set<String> withoutTier(List<String> prompts) throws Exception {
        Path place = directory.resolve("without");
        PipelineOptions options = TestJob.options(place, TestJob.fake(4, KV_TOKENS), 1);
        try (TestJob job = new TestJob(place, TestPrompts.write(place, prompts), options, CHECKPOINT_INTERVAL)) {
            job.start(null);
            return job.finish(TIMEOUT);
        }
    }

    /** Runs until so many requests are done, then stops with a savepoint. */
    private static String runUntil(Path place, Path input, int parallelism, int numCompleted) throws Exception {
        System.setProperty(STEP_MILLIS, "20");
        // Room for all documents, so that none leaves memory before its turn to be stored.
        try (TestJob job =
                new TestJob(place, input, withTier(place, 16 * KV_TOKENS, parallelism), CHECKPOINT_INTERVAL)) {
            job.start(null);
            // Chunks are written behind.
            job.await(
                    TIMEOUT,
                    counts -> counts.numCompleted() >= numCompleted
                            && counts.tier().numChunksStored() >= 2L * numCompleted);
            return job.stopWithSavepoint();
        } finally {
            System.clearProperty(STEP_MILLIS);
        }
    }

    private static JobCounts runFrom(String savepoint, Path place, Path input, int parallelism, Set<String> expected)
            throws Exception {
        return runFrom(savepoint, place, input, parallelism, KV_TOKENS, expected);
    }

    private static JobCounts runFrom(
            String savepoint, Path place, Path input, int parallelism, int kvTokens, Set<String> expected)
            throws Exception {
        loadingPays();
        try (TestJob job = new TestJob(place, input, withTier(place, kvTokens, parallelism), CHECKPOINT_INTERVAL)) {
            job.start(savepoint);
            JobCounts counts = job.await(TIMEOUT, JobCounts::isFinished);
            job.stopWithSavepoint();
            assertEquals(expected, job.lines());
            return counts;
        }
    }

    @Test
    void prefixesAreFoundAfterARestore() throws Exception {
        List<String> prompts = documentQuestions(1, 10, 6);
        Path place = directory.resolve("restored");
        Path input = TestPrompts.write(place, prompts);
        Set<String> expected = withoutTier(prompts);
        String savepoint = runUntil(place, input, 1, 10);
        JobCounts counts = runFrom(savepoint, place, input, 1, expected);
        assertTrue(counts.tier().numLoadedTokens() > 0, counts.toString());
        assertTrue(counts.tier().numTierTokens() > 0, counts.toString());
        assertEquals(0, counts.tier().numFailures(), counts.toString());
    }

    @Test
    void prefixesFollowTheirKeyGroupsWhenTheJobIsRescaled() throws Exception {
        List<String> prompts = documentQuestions(2, 10, 6);
        Path place = directory.resolve("rescaled");
        Path input = TestPrompts.write(place, prompts);
        Set<String> expected = withoutTier(prompts);
        String savepoint = runUntil(place, input, 1, 10);
        JobCounts counts = runFrom(savepoint, place, input, 2, expected);
        assertTrue(counts.tier().numHitTokens() >= 3 * CHUNK_TOKENS, counts.toString());
        assertTrue(counts.tier().numLoadedTokens() > 0, counts.toString());
        assertEquals(0, counts.tier().numFailures(), counts.toString());
    }

    @Test
    void prefixesAreFoundAfterFailures() throws Exception {
        List<String> prompts = documentQuestions(3, 8, 12);
        Set<String> expected = withoutTier(prompts);
        loadingPays();
        FAILS_AT.clear();
        FAILS_AT.addAll(List.of("r4-d0", "r8-d0")); // seconds after the documents were stored
        Path place = directory.resolve("failing");
        // All documents fit into memory, which a failure empties: whatever is loaded was stored before one.
        PipelineOptions options = TestJob.withSizes(
                withTier(place, 16 * KV_TOKENS, 1), Long.MAX_VALUE, PrefixTierITCase::bytesUnlessMadeToFail);
        try (TestJob job = new TestJob(place, TestPrompts.write(place, prompts), options, CHECKPOINT_INTERVAL)) {
            job.start(null);
            JobCounts counts = job.await(TIMEOUT, JobCounts::isFinished);
            job.stopWithSavepoint();
            assertEquals(Set.of(), FAILS_AT);
            assertTrue(counts.tier().numLoadedTokens() > 0, counts.toString());
            assertEquals(expected, job.lines());
        }
    }

    private static long bytesUnlessMadeToFail(Completion completion) {
        if (FAILS_AT.remove(completion.getRequestId().toString())) {
            throw new IllegalStateException("made to fail");
        }
        return TestJob.completionBytes(completion);
    }

    @Test
    void aTierOnDiskServesAllSubtasksOfTheProcess() throws Exception {
        List<String> prompts = documentQuestions(8, 8, 3);
        Set<String> expected = withoutTier(prompts);
        loadingPays();
        Path place = directory.resolve("disk");
        PipelineOptions options = withTier(TierKind.DISK, place, KV_TOKENS, 2);
        try (TestJob job = new TestJob(place, TestPrompts.write(place, prompts), options, CHECKPOINT_INTERVAL)) {
            job.start(null);
            JobCounts counts = job.await(TIMEOUT, JobCounts::isFinished);
            job.stopWithSavepoint();
            assertTrue(counts.tier().numLoadedTokens() > 0, counts.toString());
            assertEquals(0, counts.tier().numFailures(), counts.toString());
            assertEquals(expected, job.lines());
        }
    }

    @Test
    void stateThatTheDiskGarbledIsAMissAndTheJobLives() throws Exception {
        List<String> prompts = documentQuestions(4, 8, 6);
        Path place = directory.resolve("garbled");
        Path input = TestPrompts.write(place, prompts);
        Set<String> expected = withoutTier(prompts);
        String savepoint = runUntil(place, input, 1, 8);
        int numGarbled = garblePieces(Path.of(java.net.URI.create(savepoint)).getParent());
        assertTrue(numGarbled > 0, "no piece in " + savepoint);
        // Memory holds all documents, so that none is asked of the tier again once it was computed and stored anew.
        JobCounts counts = runFrom(savepoint, place, input, 1, 16 * KV_TOKENS, expected);
        assertTrue(counts.tier().numFailures() > 0, counts.toString());
        assertTrue(counts.tier().numMissedTokens().getOrDefault("read_failed", 0L) > 0, counts.toString());
        assertEquals(0, counts.tier().numLoadedTokens(), counts.toString());
    }

    /** Changes a byte in every piece in the files below a directory. Pieces are not compressed, and begin with a magic. */
    private static int garblePieces(Path below) throws IOException {
        byte[] magic = "MKVP".getBytes(StandardCharsets.US_ASCII);
        List<Path> files;
        try (Stream<Path> all = Files.walk(below)) {
            files = all.filter(Files::isRegularFile).toList();
        }
        int numGarbled = 0;
        for (Path file : files) {
            byte[] bytes = Files.readAllBytes(file);
            boolean changed = false;
            for (int at = 0; at + 200 < bytes.length; at++) {
                if (Arrays.equals(bytes, at, at + magic.length, magic, 0, magic.length)) {
                    bytes[at + 150] ^= 1;
                    numGarbled++;
                    changed = true;
                }
            }
            if (changed) {
                Files.write(file, bytes);
            }
        }
        return numGarbled;
    }

    @Test
    void aSystemPromptUnderAllTrafficKeepsBothSubtasksBusyAndIsStoredOncePerReplica() throws Exception {
        System.setProperty(STEP_MILLIS, "2");
        Random random = new Random(5);
        int[] system = random.ints(2 * CHUNK_TOKENS, 3, 600).toArray();
        List<String> prompts = new ArrayList<>();
        for (int i = 0; i < 120; i++) {
            prompts.add(question("r" + i, system, random));
        }
        Path place = directory.resolve("hot");
        try (TestJob job = new TestJob(
                place, TestPrompts.write(place, prompts), withTier(place, 4 * KV_TOKENS, 2), CHECKPOINT_INTERVAL)) {
            job.start(null);
            JobCounts counts =
                    job.await(TIMEOUT, c -> c.isFinished() && c.tier().numChunksStored() >= 4);
            List<Long> generated = job.bySubtask("vllm.generation_tokens_total");
            List<Long> stored = job.bySubtask("vllm.tier_store_chunks");
            job.stopWithSavepoint();
            assertEquals(2, generated.size());
            long total = generated.stream().mapToLong(Long::longValue).sum();
            for (long one : generated) {
                assertTrue(one > total / 4, "one subtask did nearly all of it: " + generated);
            }
            assertEquals(List.of(2L, 2L), stored, counts.toString());
        }
    }

    @Test
    void distinctDocumentsAreComputedAndStoredByOneSubtaskEach() throws Exception {
        int numDocuments = 24;
        int numRounds = 3;
        List<String> prompts = documentQuestions(6, numDocuments, numRounds);
        Path place = directory.resolve("documents");
        // Room for all of them in memory, so that whatever is computed twice was computed by two subtasks.
        try (TestJob job = new TestJob(
                place, TestPrompts.write(place, prompts), withTier(place, 16 * KV_TOKENS, 2), CHECKPOINT_INTERVAL)) {
            job.start(null);
            JobCounts counts =
                    job.await(TIMEOUT, c -> c.isFinished() && c.tier().numChunksStored() >= 3 * numDocuments);
            List<Long> stored = job.bySubtask("vllm.tier_store_chunks");
            job.stopWithSavepoint();
            assertEquals(2, stored.size());
            assertTrue(stored.stream().allMatch(chunks -> chunks >= numDocuments / 2), stored.toString());
            // The very first requests are the whole traffic for a moment, so that one document may have been spread.
            assertTrue(counts.tier().numChunksStored() <= 3 * (numDocuments + 1), counts.toString());
            long once = 3L * CHUNK_TOKENS * (numDocuments + 1) + 20L * numDocuments * numRounds;
            long slack = 16L * numDocuments * numRounds; // a question's first block
            assertTrue(counts.numPrefillTokens() <= once + slack, counts.numPrefillTokens() + " > " + once);
        }
    }

    @Test
    void aTierInStateNeedsAStateBackendOnDisk() throws Exception {
        Path place = directory.resolve("heap");
        List<String> prompts = documentQuestions(7, 1, 1);
        try (TestJob job = TestJob.withHeapState(
                place, TestPrompts.write(place, prompts), withTier(place, KV_TOKENS, 1), CHECKPOINT_INTERVAL)) {
            job.start(null);
            AssertionError failure =
                    assertThrows(AssertionError.class, () -> job.await(Duration.ofSeconds(20), JobCounts::isFinished));
            assertTrue(failure.getMessage().contains("state.backend.type"), failure.getMessage());
            assertFalse(failure.getMessage().contains("not reached"), failure.getMessage());
        }
    }
}
