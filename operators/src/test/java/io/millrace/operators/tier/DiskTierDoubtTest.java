package io.millrace.operators.tier;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.Dtype;
import io.millrace.backend.KvFormat;
import io.millrace.engine.EngineConfig;
import io.millrace.engine.InferenceEngine;
import io.millrace.engine.Request;
import io.millrace.engine.StepReport;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.prefix.ChunkCodec;
import io.millrace.prefix.ChunkDoubt;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierConfig;
import io.millrace.prefix.TierMiss;
import io.millrace.prefix.TierStats;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.SamplingParams;
import io.millrace.sampling.TokenLogprobs;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The demo model over a store on disk that holds its prompts' prefixes, and everything that can be wrong with it: tokens and log
 * probabilities are, bit for bit, those of an engine without a store, and the counters say what happened.
 */
class DiskTierDoubtTest {
    private static final Path MODEL = Path.of("../models/millrace-tiny");
    private static final int CHUNK_TOKENS = 64;
    private static final int NUM_DOCUMENTS = 3;
    private static final int DOCUMENT_TOKENS = 6 * CHUNK_TOKENS + 9;
    private static final TierConfig TIER = new TierConfig(KvFormat.AS_COMPUTED, CHUNK_TOKENS, true, 256L << 20, 20_000);
    private static final Map<String, Map<String, String>> WITHOUT_A_STORE = new ConcurrentHashMap<>();

    private final FaultyPieceDatabase database = new FaultyPieceDatabase();
    private final DiskWorkers workers =
            new DiskWorkers(new DiskChunks(database, "memory", 1L << 30, 0, System::currentTimeMillis), 256L << 20, 2);

    @TempDir
    Path directory;

    @AfterEach
    void closeStore() {
        workers.close();
    }

    private DiskPrefixStore store() {
        return new DiskPrefixStore(workers, () -> {});
    }

    private static EngineConfig config(TierConfig tier, Dtype dtype) {
        return new EngineConfig(
                        MODEL.toString(), "cpu", dtype, 0, 8, 256, 16L << 20, true, 16, 2, LogprobsMode.RAW_LOGPROBS)
                .withTier(tier);
    }

    private static List<Request> requests(String salt) {
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < 2 * NUM_DOCUMENTS; i++) {
            int[] document = new Random(i % NUM_DOCUMENTS)
                    .ints(DOCUMENT_TOKENS, 10, 1000)
                    .toArray();
            int[] prompt = Arrays.copyOf(document, DOCUMENT_TOKENS + 5);
            System.arraycopy(new Random(100 + i).ints(5, 10, 1000).toArray(), 0, prompt, DOCUMENT_TOKENS, 5);
            SamplingParams params = SamplingParams.builder()
                    .seed(i)
                    .temperature(i % 2)
                    .maxTokens(12)
                    .numLogprobs(2)
                    .ignoreEos(true)
                    .build();
            requests.add(new Request("r" + i, prompt, params, 0, salt, List.of(), false, i));
        }
        return requests;
    }

    private static Map<String, String> run(InferenceEngine engine, List<Request> requests) {
        return run(engine, requests, () -> {});
    }

    /** @param afterStep done after each step */
    private static Map<String, String> run(InferenceEngine engine, List<Request> requests, Runnable afterStep) {
        Map<String, String> results = new TreeMap<>();
        requests.forEach(engine::submit);
        while (!engine.isIdle()) {
            StepReport report = engine.step();
            afterStep.run();
            if (report == null) {
                sleep(1);
                continue;
            }
            assertEquals(List.of(), report.failures());
            for (SampleDelta delta : report.deltas()) {
                StringBuilder news = new StringBuilder();
                for (TokenLogprobs entry : delta.logprobs()) {
                    news.append(entry.tokenId()).append(':').append(entry.logprob());
                    news.append(Arrays.toString(entry.topLogprobs())).append(' ');
                }
                if (delta.finished() != null) {
                    news.append(delta.finished().text());
                }
                results.merge(delta.requestId(), news.toString(), String::concat);
            }
        }
        return results;
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new AssertionError("interrupted", e);
        }
    }

    private static Map<String, String> withoutAStore(String salt, TierConfig tier, Dtype dtype) {
        return WITHOUT_A_STORE.computeIfAbsent(salt + tier.format() + dtype, key -> {
            TierConfig rounding = tier.format().isLossy() ? tier : null;
            try (InferenceEngine engine = InferenceEngine.open(config(rounding, dtype))) {
                return run(engine, requests(salt));
            }
        });
    }

    /** Fills the store, one request a document, and waits until it has written everything. */
    private void fill(PrefixStore store) {
        int numChunks = NUM_DOCUMENTS * (DOCUMENT_TOKENS / CHUNK_TOKENS);
        try (InferenceEngine engine = InferenceEngine.open(config(TIER, Dtype.AUTO), store)) {
            run(engine, requests("").subList(0, NUM_DOCUMENTS));
            long deadline = System.currentTimeMillis() + 20_000;
            while (store.stats().numChunksWritten() < numChunks) {
                assertTrue(System.currentTimeMillis() < deadline, "not written: " + store.stats());
                engine.step();
                sleep(1);
            }
        }
    }

    private TierStats verify(PrefixStore store) {
        return verify(store, "", TIER, Dtype.AUTO);
    }

    private TierStats verify(PrefixStore store, String salt, TierConfig tier, Dtype dtype) {
        try (InferenceEngine engine = InferenceEngine.open(config(tier, dtype), store)) {
            assertEquals(withoutAStore(salt, tier, dtype), run(engine, requests(salt)));
            return engine.stats().tier();
        }
    }

    private void damage(BiFunction<String, byte[], byte[]> change) {
        database.pieces.replaceAll((name, piece) -> change.apply(name, piece.clone()));
    }

    private static byte[] resealed(byte[] piece) {
        ChunkCodec.seal(piece);
        return piece;
    }

    private void assertRefused(ChunkDoubt doubt) {
        TierStats stats = verify(store());
        assertEquals(Set.of(doubt), stats.numRefusals().keySet());
        assertTrue(stats.numMissedTokens(TierMiss.REFUSED) >= CHUNK_TOKENS, stats.toString());
        assertEquals(0, stats.numLoadedTokens());
    }

    @Test
    void aRightStoreIsLoadedFrom() {
        fill(store());
        TierStats stats = verify(store());
        assertTrue(stats.numLoadedTokens() >= 2L * CHUNK_TOKENS, stats.toString());
        assertEquals(Map.of(), stats.numRefusals());
        assertEquals(0, stats.store().numFailures());
    }

    @Test
    void corruptedBytesAreRefused() {
        fill(store());
        Random random = new Random(8);
        damage((name, piece) -> {
            piece[200 + random.nextInt(piece.length - 200)] ^= (byte) (1 << random.nextInt(8));
            return piece;
        });
        assertRefused(ChunkDoubt.CHECKSUM);
    }

    @Test
    void anotherFormatVersionIsRefused() {
        fill(store());
        damage((name, piece) -> resealed(ByteBuffer.wrap(piece).putInt(4, 99).array()));
        assertRefused(ChunkDoubt.FORMAT_VERSION);
    }

    @Test
    void anotherFingerprintUnderTheSameKeyIsRefused() {
        fill(store());
        damage((name, piece) ->
                resealed(ByteBuffer.wrap(piece).putLong(28, 4711).array()));
        assertRefused(ChunkDoubt.FINGERPRINT);
    }

    @Test
    void anotherLayoutUnderTheSameKeyIsRefused() {
        fill(store());
        damage((name, piece) -> resealed(ByteBuffer.wrap(piece).putInt(44, 7).array()));
        assertRefused(ChunkDoubt.LAYOUT);
    }

    @Test
    void otherTokensUnderTheSameKeyAreRefused() {
        fill(store());
        damage((name, piece) ->
                resealed(ByteBuffer.wrap(piece).putInt(92 + 4 * 11, 5).array()));
        assertRefused(ChunkDoubt.TOKENS);
    }

    @Test
    void anotherChunkUnderTheSameKeyIsRefused() {
        fill(store());
        byte[] other = database.pieces.values().iterator().next();
        damage((name, piece) -> Arrays.equals(piece, other) ? new byte[0] : other.clone());
        TierStats stats = verify(store());
        assertTrue(stats.numRefusals().getOrDefault(ChunkDoubt.KEY, 0L) > 0, stats.toString());
        assertEquals(0, stats.numLoadedTokens());
    }

    @Test
    void truncatedAndDroppedPiecesAreMisses() {
        fill(store());
        int[] count = {0};
        damage((name, piece) -> count[0]++ % 2 == 0 ? Arrays.copyOf(piece, piece.length / 2) : piece);
        database.pieces.keySet().removeIf(name -> name.hashCode() % 3 == 0);
        TierStats stats = verify(store());
        assertTrue(stats.numMissedTokens(TierMiss.READ_FAILED) >= CHUNK_TOKENS, stats.toString());
        assertTrue(stats.store().numFailures() > 0);
    }

    @Test
    void anotherSaltDtypeChunkLengthOrFormatFindsNothing() {
        fill(store());
        TierConfig longer = new TierConfig(KvFormat.AS_COMPUTED, 2 * CHUNK_TOKENS, true, 256L << 20, 20_000);
        TierConfig lossy = new TierConfig(KvFormat.INT8, CHUNK_TOKENS, true, 256L << 20, 20_000);
        for (TierStats stats : List.of(
                verify(store(), "other", TIER, Dtype.AUTO),
                verify(store(), "", longer, Dtype.AUTO),
                verify(store(), "", lossy, Dtype.AUTO))) {
            assertTrue(stats.numMissedTokens(TierMiss.NOT_STORED) > 0, stats.toString());
            assertEquals(0, stats.numHitTokens());
            assertEquals(Map.of(), stats.numRefusals());
        }
    }

    @Test
    void failingReadsAreMissesAndSuspend() {
        fill(store());
        database.failsReads = true;
        TierStats stats = verify(store());
        assertTrue(stats.numMissedTokens(TierMiss.READ_FAILED) >= CHUNK_TOKENS, stats.toString());
        assertEquals(0, stats.numLoadedTokens());
        assertTrue(stats.store().numFailures() > 0);
    }

    @Test
    void hangingReadsTimeOut() {
        fill(store());
        CountDownLatch hang = new CountDownLatch(1);
        database.hang = hang;
        try {
            TierConfig impatient = new TierConfig(KvFormat.AS_COMPUTED, CHUNK_TOKENS, false, 256L << 20, 30);
            TierStats stats = verify(store(), "", impatient, Dtype.AUTO);
            assertTrue(
                    stats.numMissedTokens(TierMiss.TIMED_OUT) >= CHUNK_TOKENS || stats.numComputedTokens() > 0,
                    stats.toString());
            assertEquals(0, stats.numLoadedTokens());
        } finally {
            hang.countDown();
        }
    }

    /** A reader has looked a chunk up and is about to read it when the writer needs the room. */
    @Test
    void aChunkEvictedBetweenFindAndReadIsAMiss() {
        long capacityBytes = 8L << 20;
        DiskChunks chunks = new DiskChunks(database, "memory", capacityBytes, 0, System::currentTimeMillis);
        DiskWorkers tight = new DiskWorkers(chunks, 256L << 20, 1);
        try {
            fill(new DiskPrefixStore(tight, () -> {}));
            CountDownLatch evicted = new CountDownLatch(1);
            ChunkWrite large = new ChunkWrite(
                    0, List.of(new ChunkKey(1, 1)), new byte[][] {new byte[(int) (capacityBytes * 3 / 4)]}, 0);
            database.beforeRead = () -> {
                database.beforeRead = () -> {};
                assertTrue(tight.submit(large, (chunk, isKept) -> evicted.countDown()));
                await(evicted);
            };
            DiskPrefixStore store = new DiskPrefixStore(tight, () -> {});
            try (InferenceEngine engine = InferenceEngine.open(config(TIER, Dtype.AUTO), store)) {
                List<Request> requests = requests("");
                Map<String, String> results = run(engine, requests.subList(0, 1), () -> {
                    await(evicted); // before the sequence has come to what is being read
                    sleep(30);
                });
                results.putAll(run(engine, requests.subList(1, requests.size())));
                assertEquals(withoutAStore("", TIER, Dtype.AUTO), results);
                TierStats stats = engine.stats().tier();
                assertTrue(stats.numMissedTokens(TierMiss.EVICTED) >= CHUNK_TOKENS, stats.toString());
                assertEquals(0, stats.numMissedTokens(TierMiss.READ_FAILED));
                assertEquals(0, store.stats().numFailures());
                assertTrue(
                        store.stats().numChunksEvicted() >= NUM_DOCUMENTS * 6,
                        store.stats().toString());
            }
        } finally {
            tight.close();
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            assertTrue(latch.await(20, TimeUnit.SECONDS), "waited in vain");
        } catch (InterruptedException e) {
            throw new AssertionError("interrupted", e);
        }
    }

    @Test
    void aFullDiskDropsChunksAndSuspends() {
        database.failsWrites = true;
        DiskPrefixStore store = store();
        TierStats stats = verify(store);
        assertTrue(stats.numChunksExported() > 0, stats.toString());
        long deadline = System.currentTimeMillis() + 20_000;
        while (!database.isClosed) {
            assertTrue(System.currentTimeMillis() < deadline);
            sleep(1);
        }
        assertNotNull(store.suspension());
        assertTrue(store.stats().numChunksDropped() > 0, store.stats().toString());
        assertEquals(0, store.stats().numChunksWritten());
        assertEquals(0, verify(store()).numHitTokens());
    }

    @Test
    void aDatabaseDeletedUnderTheRunningEngineIsAMiss() throws IOException {
        DiskStoreOptions options = DiskStoreOptions.of(directory.toString(), 256L << 20, Duration.ZERO);
        DiskPrefixStore kept = DiskPrefixStore.open(options); // so that the database outlives its first engine
        fill(DiskPrefixStore.open(options));
        TierStats warm = verify(DiskPrefixStore.open(options));
        assertTrue(warm.numLoadedTokens() > 0, warm.toString());
        DiskPrefixStore store = DiskPrefixStore.open(options);
        try (InferenceEngine engine = InferenceEngine.open(config(TIER, Dtype.AUTO), store)) {
            List<Request> requests = requests("");
            Map<String, String> results = run(engine, requests.subList(0, 1));
            delete(directory);
            results.putAll(run(engine, requests.subList(1, requests.size())));
            assertEquals(withoutAStore("", TIER, Dtype.AUTO), results);
            TierStats stats = engine.stats().tier();
            assertTrue(stats.numMissedTokens(TierMiss.READ_FAILED) >= CHUNK_TOKENS, stats.toString());
            assertTrue(store.suspension().contains("deleted"), store.suspension());
        }
        kept.close();
    }

    private static void delete(Path tree) throws IOException {
        try (Stream<Path> files = Files.walk(tree)) {
            for (Path file : (Iterable<Path>) files.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(file);
            }
        }
    }
}
