package io.millrace.operators.tier;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.millrace.engine.InvalidConfigException;
import io.millrace.prefix.ChunkCodec;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.TierMiss;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class DiskPrefixStoreTest {
    private static final long MEBIBYTE = 1 << 20;

    /** A piece has a header, at least. */
    private static final int MIN_PIECE_BYTES = 100;

    @TempDir
    Path directory;

    private final Received received = new Received();
    private final SplittableRandom random = new SplittableRandom(3);
    private long nextTicket;

    private DiskStoreOptions options(long capacityBytes) {
        return DiskStoreOptions.of(directory.toString(), capacityBytes, Duration.ZERO);
    }

    private DiskPrefixStore opened(DiskStoreOptions options) {
        DiskPrefixStore store = DiskPrefixStore.open(options);
        store.open(received);
        return store;
    }

    private DiskPrefixStore over(FaultyPieceDatabase database, int numReaderThreads) {
        DiskChunks chunks = new DiskChunks(database, "memory", 64 * MEBIBYTE, 0, System::currentTimeMillis);
        DiskWorkers workers = new DiskWorkers(chunks, 16 * MEBIBYTE, numReaderThreads);
        DiskPrefixStore store = new DiskPrefixStore(workers, workers::close);
        store.open(received);
        return store;
    }

    private List<ChunkKey> chain(int length) {
        List<ChunkKey> chain = new ArrayList<>();
        for (int i = 0; i < length; i++) {
            chain.add(new ChunkKey(random.nextLong(), random.nextLong()));
        }
        return chain;
    }

    private byte[][] pieces(int... lengths) {
        byte[][] pieces = new byte[lengths.length][];
        for (int i = 0; i < lengths.length; i++) {
            pieces[i] = new byte[Math.max(lengths[i], MIN_PIECE_BYTES)];
            random.nextBytes(pieces[i]);
        }
        return pieces;
    }

    private int find(DiskPrefixStore store, List<ChunkKey> chain) {
        store.find(++nextTicket, 17, chain);
        return received.numFound(nextTicket);
    }

    private long load(DiskPrefixStore store, ChunkKey key) {
        store.load(++nextTicket, 17, key);
        return nextTicket;
    }

    private static void await(BooleanSupplier condition) {
        long deadline = System.currentTimeMillis() + 20_000;
        while (!condition.getAsBoolean()) {
            assertTrue(System.currentTimeMillis() < deadline, "waited in vain");
            try {
                Thread.sleep(2);
            } catch (InterruptedException e) {
                throw new AssertionError("interrupted", e);
            }
        }
    }

    private static long settled(DiskPrefixStore store) {
        return store.stats().numChunksWritten() + store.stats().numChunksDropped();
    }

    private void storeAll(DiskPrefixStore store, List<ChunkKey> chain, List<byte[][]> chunks) {
        for (int i = 0; i < chain.size(); i++) {
            long before = settled(store);
            assertTrue(store.store(17, chain.subList(0, i + 1), chunks.get(i)));
            await(() -> settled(store) > before);
        }
    }

    @Test
    void whatIsStoredIsFoundAndComesBack() {
        try (Closing store = new Closing(opened(options(64 * MEBIBYTE)))) {
            List<ChunkKey> chain = chain(5);
            List<byte[][]> chunks = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                chunks.add(pieces(900_000, 1_000_000, 1_048_576 - i));
            }
            assertEquals(0, find(store.store, chain));
            storeAll(store.store, chain.subList(0, 4), chunks);
            assertEquals(4, find(store.store, chain));
            for (int i = 3; i >= 0; i--) {
                byte[][] loaded = received.pieces(load(store.store, chain.get(i)));
                byte[][] expected = chunks.get(i);
                for (byte[] piece : expected) {
                    ChunkCodec.seal(piece);
                }
                assertEquals(3, loaded.length);
                for (int piece = 0; piece < 3; piece++) {
                    assertArrayEquals(expected[piece], loaded[piece]);
                }
            }
            long absent = load(store.store, chain.get(4));
            assertEquals("it is not stored", received.missReason(absent));
            assertEquals(TierMiss.NOT_STORED, received.miss(absent));
            assertEquals(4, store.store.stats().numChunks());
            assertEquals(store.store.stats().numBytes(), store.store.stats().numBytesRead());
            assertEquals(0, store.store.stats().numFailures());
        }
    }

    @Test
    void storesOfEqualOptionsShareOneDatabaseWhichGoesWithTheLast() throws IOException {
        DiskPrefixStore first = opened(options(64 * MEBIBYTE));
        DiskPrefixStore second = opened(options(64 * MEBIBYTE));
        DiskPrefixStore other = opened(options(32 * MEBIBYTE));
        List<ChunkKey> chain = chain(1);
        storeAll(first, chain, List.<byte[][]>of(pieces(1000)));
        assertEquals(1, find(second, chain));
        assertEquals(0, find(other, chain));
        assertTrue(second.store(4, chain, pieces(1000)), "taken, and let go: it is there");
        assertEquals(2, numDirectories());
        first.close();
        first.close();
        assertNotNull(received.pieces(load(second, chain.get(0))));
        assertFalse(first.store(4, chain, pieces(1000)));
        second.close();
        assertEquals(1, numDirectories());
        other.close();
        assertEquals(0, numDirectories());
        DiskPrefixStore cold = opened(options(64 * MEBIBYTE));
        assertEquals(0, find(cold, chain));
        cold.close();
    }

    private long numDirectories() throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            return files.filter(Files::isDirectory).count();
        }
    }

    @Test
    void whatTheDeadLeftBehindIsDeletedAndTheLivingIsNot() throws IOException {
        StoreDirectory living = StoreDirectory.create(directory);
        Path dead = Files.createDirectories(directory.resolve("prefix-kv-of-the-dead/db"));
        Files.writeString(dead.resolve("000007.blob"), "stale");
        Path unrelated = Files.createDirectory(directory.resolve("photos"));
        StoreDirectory next = StoreDirectory.create(directory);
        assertTrue(living.isThere() && next.isThere() && Files.exists(unrelated));
        assertFalse(Files.exists(dead.getParent()));
        next.close();
        living.close();
        assertFalse(Files.exists(living.path()));
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2})
    void theCapHoldsAndChainsLoseTheirTails(long seed) throws IOException {
        SplittableRandom walk = new SplittableRandom(seed);
        long capacity = 24 * MEBIBYTE;
        DiskPrefixStore store = opened(options(capacity));
        List<List<ChunkKey>> chains = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            chains.add(chain(8));
        }
        long most = 0;
        for (int i = 0; i < 150; i++) {
            List<ChunkKey> chain = chains.get(Math.min(walk.nextInt(8), walk.nextInt(8)));
            int stored = find(store, chain);
            if (stored == chain.size()) {
                assertNotNull(received.pieces(load(store, chain.get(walk.nextInt(stored)))));
                continue;
            }
            long before = settled(store);
            assertTrue(store.store(1, chain.subList(0, stored + 1), pieces(400_000 + walk.nextInt(200_000), 100_000)));
            await(() -> settled(store) > before);
            most = Math.max(most, bytesOfFiles());
            assertTrue(store.stats().numBytes() <= capacity * 3 / 4);
        }
        assertTrue(store.stats().numChunksEvicted() > 15, store.stats() + " of seed " + seed);
        assertTrue(most <= capacity + 2 * MEBIBYTE, most + " bytes of files, seed " + seed);
        assertEquals(0, store.stats().numFailures());
        long found = 0;
        for (List<ChunkKey> chain : chains) {
            int numStored = find(store, chain);
            found += numStored;
            for (int i = 0; i < numStored; i++) {
                assertNotNull(received.pieces(load(store, chain.get(i))), "seed " + seed);
            }
        }
        assertEquals(store.stats().numChunks(), found, "no chunk is without the ones before it; seed " + seed);
        store.close();
    }

    private long bytesOfFiles() throws IOException {
        while (true) {
            try (Stream<Path> files = Files.walk(directory)) {
                return files.filter(file -> file.toString().endsWith(".sst"))
                        .mapToLong(file -> file.toFile().length())
                        .sum();
            } catch (UncheckedIOException e) {
                if (!(e.getCause() instanceof NoSuchFileException)) {
                    throw e;
                }
                // The database removed a file on the way: look again.
            }
        }
    }

    @Test
    void chunksOfSupersededVersionsAndUnusedOnesGoFirst() {
        FaultyPieceDatabase database = new FaultyPieceDatabase();
        long[] now = {1_000};
        DiskChunks chunks = new DiskChunks(database, "memory", 40_000, 500, () -> now[0]);
        List<ChunkKey> old = chain(1);
        List<ChunkKey> current = chain(1);
        chunks.setGeneration(1);
        assertTrue(chunks.write(new ChunkWrite(0, current, pieces(10_000), 2)));
        assertTrue(chunks.write(new ChunkWrite(0, old, pieces(10_000), 1)));
        chunks.setGeneration(2);
        assertTrue(chunks.write(new ChunkWrite(0, chain(1), pieces(12_000), 2)));
        assertEquals(1, chunks.numLeading(current));
        assertEquals(0, chunks.numLeading(old));
        now[0] = 1_400;
        assertEquals(1, chunks.numLeading(current));
        now[0] = 1_600;
        chunks.evictUnused();
        assertEquals(1, chunks.numChunks());
        assertEquals(1, chunks.numLeading(current));
        assertFalse(chunks.write(new ChunkWrite(0, chain(1), pieces(31_000), 2)), "larger than everything");
        assertFalse(chunks.write(new ChunkWrite(0, chain(2), pieces(10), 2)), "the chunk before it is not there");
        chunks.checkIntegrity();
        chunks.close();
    }

    @Test
    void aChunkThatCannotBeReadIsForgottenAndAThirdSuspends() {
        FaultyPieceDatabase database = new FaultyPieceDatabase();
        try (Closing closing = new Closing(over(database, 1))) {
            DiskPrefixStore store = closing.store;
            List<ChunkKey> chain = chain(3);
            storeAll(store, chain, List.of(pieces(10, 20), pieces(10, 20), pieces(10, 20)));
            List<ChunkKey> others = chain(5);
            storeAll(store, others, List.of(pieces(1), pieces(1), pieces(1), pieces(1), pieces(1)));
            database.pieces.remove(chain.get(1) + "/1");
            long damaged = load(store, chain.get(1));
            String reason = received.missReason(damaged);
            assertEquals(TierMiss.READ_FAILED, received.miss(damaged));
            assertTrue(reason.contains("piece 1 of 2 is not there"), reason);
            assertEquals(1, find(store, chain));
            assertNotNull(received.pieces(load(store, chain.get(0))));
            assertNull(store.suspension());

            database.failsReads = true;
            for (int i = 4; i >= 2; i--) {
                assertNotNull(received.missReason(load(store, others.get(i))));
            }
            assertTrue(store.suspension().contains("Input/output error"), store.suspension());
            assertEquals(4, store.stats().numFailures());
            await(() -> database.isClosed);
            assertEquals(0, find(store, others));
            long suspended = load(store, others.get(0));
            assertEquals(store.suspension(), received.missReason(suspended));
            assertEquals(TierMiss.CLOSED, received.miss(suspended));
            assertFalse(store.store(1, chain(1), pieces(10)));
            assertEquals(0, store.stats().numChunks());
        }
    }

    @Test
    void aFullDiskSuspendsAndDeletes() {
        FaultyPieceDatabase database = new FaultyPieceDatabase();
        try (Closing closing = new Closing(over(database, 2))) {
            DiskPrefixStore store = closing.store;
            List<ChunkKey> chain = chain(2);
            storeAll(store, chain.subList(0, 1), List.<byte[][]>of(pieces(10)));
            database.failsWrites = true;
            assertTrue(store.store(1, chain, pieces(10)));
            await(() -> database.isClosed);
            assertTrue(store.suspension().contains("No space left"), store.suspension());
            await(() -> store.stats().numChunksDropped() == 1);
            assertEquals(0, find(store, chain));
        }
    }

    @Test
    void aHangingReadHoldsUpNoOther() {
        FaultyPieceDatabase database = new FaultyPieceDatabase();
        try (Closing closing = new Closing(over(database, 2))) {
            DiskPrefixStore store = closing.store;
            List<ChunkKey> chain = chain(3);
            storeAll(store, chain, List.of(pieces(10), pieces(10), pieces(10)));
            CountDownLatch hang = new CountDownLatch(1);
            database.hang = hang;
            long hanging = load(store, chain.get(2));
            await(() -> database.numReads.get() == 1);
            database.hang = null;
            assertNotNull(received.pieces(load(store, chain.get(1))));
            store.cancel(hanging);
            hang.countDown();
            assertNotNull(received.pieces(load(store, chain.get(0))));
            assertNotNull(received.pieces(load(store, chain.get(2))));
            assertFalse(received.has(hanging), "cancelled");
        }
    }

    @Test
    void arraysOfLoadsThatNothingCameOfAreGivenBack() {
        FaultyPieceDatabase database = new FaultyPieceDatabase();
        DiskPrefixStore store = over(database, 2);
        List<ChunkKey> chain = chain(3);
        storeAll(store, chain, List.of(pieces(10, 20), pieces(10, 20), pieces(10, 20)));
        assertNotNull(received.pieces(load(store, chain.get(0))));
        assertEquals(0, received.numHandedOut());

        database.pieces.remove(chain.get(2) + "/1");
        assertEquals(TierMiss.READ_FAILED, received.miss(load(store, chain.get(2))));
        assertEquals(0, received.numHandedOut());

        CountDownLatch hang = new CountDownLatch(1);
        database.hang = hang;
        long cancelled = load(store, chain.get(1));
        long wanted = load(store, chain.get(0));
        await(() -> received.numHandedOut() == 2);
        store.cancel(cancelled);
        assertEquals(2, received.numHandedOut(), "they are being read into");
        hang.countDown();
        assertNotNull(received.pieces(wanted));
        await(() -> received.numHandedOut() == 0);

        database.hang = new CountDownLatch(1);
        long unanswered = load(store, chain.get(0));
        await(() -> received.numHandedOut() == 1);
        store.close(); // interrupts what hangs
        await(() -> received.numHandedOut() == 0);
        assertFalse(received.has(cancelled) || received.has(unanswered));
    }

    @Test
    void aHangingWriteDropsWhatFindsTheBufferFull() {
        FaultyPieceDatabase database = new FaultyPieceDatabase();
        CountDownLatch hang = new CountDownLatch(1);
        database.hang = hang;
        try (Closing closing = new Closing(over(database, 1))) {
            for (int i = 0; i < 16; i++) {
                assertTrue(closing.store.store(1, chain(1), pieces((int) MEBIBYTE)));
            }
            assertFalse(closing.store.store(1, chain(1), pieces(1)));
            assertEquals(1, closing.store.stats().numChunksDropped());
            hang.countDown();
            await(() -> closing.store.stats().numChunksWritten() == 16);
            assertTrue(closing.store.store(1, chain(1), pieces(1)));
        }
    }

    @Test
    void deletedUnderItsFeetItSuspends() throws IOException {
        DiskPrefixStore store = opened(options(64 * MEBIBYTE));
        List<ChunkKey> chain = chain(2);
        storeAll(store, chain, List.of(pieces(100_000), pieces(100_000)));
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : (Iterable<Path>) files.sorted(Comparator.reverseOrder())::iterator) {
                Files.delete(file);
            }
        }
        assertTrue(received.missReason(load(store, chain.get(1))).contains("its directory was deleted"));
        assertFalse(store.store(1, chain(1), pieces(10)));
        await(() -> store.stats().numChunks() == 0);
        assertEquals(0, find(store, chain));
        store.close();
        DiskPrefixStore next = opened(options(64 * MEBIBYTE));
        storeAll(next, chain, List.of(pieces(10), pieces(10)));
        assertEquals(2, find(next, chain));
        next.close();
    }

    /** The database does not verify; the pieces' own checksums do. */
    @Test
    void damagedFilesGiveDamagedPiecesOrMisses() throws IOException {
        RocksPieceDatabase database = new RocksPieceDatabase(StoreDirectory.create(directory), 64 * MEBIBYTE, false);
        DiskChunks store = new DiskChunks(database, directory.toString(), 64 * MEBIBYTE, 0, System::currentTimeMillis);
        DiskChunks.Arrays arrays = new DiskChunks.Arrays() {
            @Override
            public byte[][] arraysFor(int[] pieceBytes) {
                return received.arraysFor(pieceBytes);
            }

            @Override
            public void giveBack(byte[][] pieces) {
                received.gaveBack(pieces);
            }
        };
        List<ChunkKey> chain = chain(1);
        byte[] right = pieces(900_000)[0];
        assertTrue(store.write(new ChunkWrite(0, chain, new byte[][] {right}, 0)));
        for (int i = 0; i < 4; i++) { // the next segment: the first becomes a file
            assertTrue(store.write(new ChunkWrite(0, chain(1), pieces(900_000), 0)));
        }
        await(() -> !filesOfPieces().isEmpty());
        Path file = filesOfPieces().get(0);
        flipBit(file, positionOf(right, file));
        byte[] loaded = store.read(chain.get(0), arrays).pieces()[0];
        assertEquals(right.length, loaded.length);
        int numDifferent = 0;
        for (int at = 0; at < right.length; at++) {
            numDifferent += loaded[at] != right[at] ? 1 : 0;
        }
        assertEquals(1, numDifferent);
        Files.write(file, new byte[0]);
        String reason = store.read(chain.get(0), arrays).missReason();
        assertTrue(reason.startsWith("reading it failed"), reason);
        assertEquals(0, store.numLeading(chain));
        assertEquals(1, store.numFailures());
        store.checkIntegrity();
        store.close();
    }

    /** Where a piece's middle lies in a file. */
    private static long positionOf(byte[] piece, Path file) throws IOException {
        byte[] all = Files.readAllBytes(file);
        int middle = piece.length / 2;
        for (int at = middle; at < all.length - middle; at++) {
            if (Arrays.equals(all, at, at + 64, piece, middle, middle + 64)) {
                return at;
            }
        }
        throw new AssertionError("the piece is not in " + file);
    }

    private static void flipBit(Path path, long position) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
            file.seek(position);
            int old = file.read();
            file.seek(position);
            file.write(old ^ 1);
        }
    }

    private List<Path> filesOfPieces() {
        try (Stream<Path> files = Files.walk(directory)) {
            return files.filter(file ->
                            file.toString().endsWith(".sst") && file.toFile().length() > 500_000)
                    .sorted()
                    .toList();
        } catch (IOException | UncheckedIOException e) {
            return List.of();
        }
    }

    /** A real failing write: a process of its own may not write files of more than a megabyte. */
    @Test
    void aDiskThatTakesNoMoreSuspends() throws Exception {
        assumeTrue(Files.isExecutable(Path.of("/usr/bin/prlimit")), "without prlimit there is no small disk");
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Process process = new ProcessBuilder(
                        java,
                        "-Xmx256m",
                        "-cp",
                        System.getProperty("java.class.path"),
                        FullDiskMain.class.getName(),
                        directory.toString())
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), output);
        assertEquals(0, process.exitValue(), output);
        assertTrue(output.contains("suspended: writing failed"), output);
        assertTrue(output.contains("files left: 0"), output);
    }

    @Test
    void settingsOutsideTheirLimitsAreRefused() throws IOException {
        assertThrows(InvalidConfigException.class, () -> DiskStoreOptions.of(" ", MEBIBYTE << 4, Duration.ZERO));
        assertThrows(InvalidConfigException.class, () -> options(MEBIBYTE));
        assertThrows(
                InvalidConfigException.class,
                () -> DiskStoreOptions.of("/tmp/x", MEBIBYTE << 4, Duration.ofSeconds(-1)));
        Path file = Files.writeString(directory.resolve("file"), "");
        InvalidConfigException refusal = assertThrows(
                InvalidConfigException.class,
                () -> DiskPrefixStore.open(DiskStoreOptions.of(file.toString(), MEBIBYTE << 4, Duration.ZERO)));
        assertTrue(refusal.getMessage().startsWith("option --tier-directory = " + file), refusal.getMessage());
    }

    /** Closes a store at the end of a block, without a checked exception. */
    private record Closing(DiskPrefixStore store) implements AutoCloseable {
        @Override
        public void close() {
            store.close();
        }
    }
}
