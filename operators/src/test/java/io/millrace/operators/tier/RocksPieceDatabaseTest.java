package io.millrace.operators.tier;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.prefix.ChunkKey;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RocksPieceDatabaseTest {
    private static final long CAPACITY_BYTES = 16 << 20;
    private static final int PIECE_BYTES = 200_000;

    @TempDir
    Path directory;

    private RocksPieceDatabase database() throws IOException {
        return new RocksPieceDatabase(StoreDirectory.create(directory), CAPACITY_BYTES, false);
    }

    /** A piece's bytes say whose they are, and in which version. */
    private static byte[] bytes(int number, int version) {
        byte[] bytes = new byte[PIECE_BYTES + number];
        new SplittableRandom(number * 1_000_003L + version).nextBytes(bytes);
        return bytes;
    }

    /** A piece as it was read; null if it was not. */
    private static byte[] read(RocksPieceDatabase database, ChunkKey key, int piece, int numBytes) throws IOException {
        byte[] bytes = new byte[numBytes];
        return database.read(key, piece, bytes) ? bytes : null;
    }

    private static ChunkKey key(int number) {
        return new ChunkKey(5, number);
    }

    @Test
    void aPieceComesBackInItsLengthOnly() throws IOException {
        try (RocksPieceDatabase database = database()) {
            byte[] bytes = bytes(3, 0);
            database.write(key(3), 1, bytes);
            assertArrayEquals(bytes, read(database, key(3), 1, bytes.length));
            assertNull(read(database, key(3), 1, bytes.length - 1));
            assertNull(read(database, key(3), 0, bytes.length));
            database.remove(key(3), 1);
            database.remove(key(3), 1);
            assertNull(read(database, key(3), 1, bytes.length));
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2})
    void roomIsGivenBackAndNothingThatIsWantedIsLost(long seed) throws IOException {
        SplittableRandom random = new SplittableRandom(seed);
        int[] versions = new int[60]; // 0: not there
        try (RocksPieceDatabase database = database()) {
            long most = 0;
            for (int i = 0; i < 600; i++) {
                // Most go in the order in which they came, some stay for long.
                int number = random.nextInt(10) == 0 ? random.nextInt(60) : i % 50;
                if (versions[number] > 0) {
                    database.remove(key(number), 0);
                }
                versions[number] = i + 1;
                database.write(key(number), 0, bytes(number, i + 1));
                if (i % 5 == 4) {
                    database.reclaim();
                    most = Math.max(most, database.numFileBytes());
                }
            }
            assertTrue(most > CAPACITY_BYTES / 2, most + " bytes; seed " + seed);
            assertTrue(most <= CAPACITY_BYTES, most + " bytes; seed " + seed);
            for (int number = 0; number < versions.length; number++) {
                byte[] read = read(database, key(number), 0, PIECE_BYTES + number);
                assertArrayEquals(versions[number] == 0 ? null : bytes(number, versions[number]), read, "seed " + seed);
                database.remove(key(number), 0);
            }
            database.reclaim();
            assertTrue(database.numFileBytes() <= CAPACITY_BYTES / 32, "only the open segment is left");
        }
    }

    @Test
    void readersGoOnWhileSegmentsGo() throws Exception {
        try (RocksPieceDatabase database = database()) {
            AtomicBoolean isOver = new AtomicBoolean();
            AtomicInteger numRead = new AtomicInteger();
            AtomicReference<Throwable> failure = new AtomicReference<>();
            database.write(key(0), 0, bytes(0, 0));
            List<Thread> readers = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                Thread reader = new Thread(() -> {
                    byte[] expected = bytes(0, 0);
                    try {
                        while (!isOver.get()) {
                            assertArrayEquals(expected, read(database, key(0), 0, expected.length));
                            numRead.incrementAndGet();
                        }
                    } catch (Throwable e) {
                        failure.set(e);
                    }
                });
                reader.start();
                readers.add(reader);
            }
            for (int i = 1; i < 400; i++) {
                database.write(key(1 + i % 64), 0, bytes(1 + i % 64, i));
                database.reclaim();
            }
            isOver.set(true);
            for (Thread reader : readers) {
                reader.join();
            }
            assertNull(failure.get(), () -> failure.get().toString());
            assertTrue(numRead.get() > 0);
            assertEquals(PIECE_BYTES, read(database, key(0), 0, PIECE_BYTES).length);
        }
    }
}
