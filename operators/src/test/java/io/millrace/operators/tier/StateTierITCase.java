package io.millrace.operators.tier;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierMiss;
import java.io.File;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.TreeMap;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.storage.FileSystemCheckpointStorage;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.util.AbstractStreamOperatorTestHarness;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The store over RocksDB state with the options that the job sets, through incremental checkpoints. */
@SuppressWarnings("try") // harnesses may throw InterruptedException when closed
class StateTierITCase {
    private static final Logger LOG = LoggerFactory.getLogger(StateTierITCase.class);
    private static final int MAX_PARALLELISM = 128;

    @TempDir
    Path directory;

    /** An operator that does nothing but hold a store, whose mails the test runs. */
    private static final class StoreOperator extends AbstractStreamOperator<Long>
            implements OneInputStreamOperator<Long, Long>, PrefixStore.Answers {
        private static final long serialVersionUID = 1L;

        private final long maxBytes;
        private transient Queue<Runnable> mails;
        private transient StatePrefixStore store;
        private transient Map<Long, Integer> found;
        private transient Map<Long, byte[][]> loaded;
        private transient Map<Long, String> missed;

        StoreOperator(long maxBytes) {
            this.maxBytes = maxBytes;
        }

        @Override
        public void initializeState(StateInitializationContext context) throws Exception {
            super.initializeState(context);
            mails = new ArrayDeque<>();
            found = new TreeMap<>();
            loaded = new TreeMap<>();
            missed = new TreeMap<>();
            KeyedStateBackend<Long> backend = getKeyedStateBackend();
            store = new StatePrefixStore(
                    context.getKeyedStateStore(),
                    backend,
                    mails::add,
                    new StatePrefixStore.Limits(maxBytes, 0, Long.MAX_VALUE),
                    new File("."),
                    nanos -> {});
            store.restore();
            store.setGeneration("fingerprint", 0);
            store.open(this);
        }

        @Override
        public void processElement(StreamRecord<Long> element) {}

        @Override
        public void found(long ticket, int numChunks) {
            found.put(ticket, numChunks);
        }

        @Override
        public void loaded(long ticket, byte[][] pieces) {
            loaded.put(ticket, pieces);
        }

        @Override
        public void missed(long ticket, TierMiss reason, String text) {
            missed.put(ticket, text);
        }

        void drain() {
            while (!mails.isEmpty()) {
                mails.remove().run();
            }
        }
    }

    private KeyedOneInputStreamOperatorTestHarness<Long, Long, Long> harness(
            StoreOperator operator, int parallelism, int subtask) throws Exception {
        var harness = new KeyedOneInputStreamOperatorTestHarness<>(
                operator, key -> key, Types.LONG, MAX_PARALLELISM, parallelism, subtask);
        EmbeddedRocksDBStateBackend backend = new EmbeddedRocksDBStateBackend(true);
        backend.setRocksDBOptions(new TierRocksDbOptions());
        harness.setStateBackend(
                backend.configure(new Configuration(), getClass().getClassLoader()));
        harness.setCheckpointStorage(
                new FileSystemCheckpointStorage(directory.resolve("checkpoints").toUri()));
        return harness;
    }

    private static List<ChunkKey> chain(long document, int length) {
        List<ChunkKey> chain = new ArrayList<>();
        for (int i = 0; i < length; i++) {
            chain.add(new ChunkKey(document, i + 1));
        }
        return chain;
    }

    private static byte[][] pieces(long seed, int numPieces, int numBytes) {
        Random random = new Random(seed);
        byte[][] pieces = new byte[numPieces][numBytes];
        for (byte[] piece : pieces) {
            random.nextBytes(piece);
        }
        return pieces;
    }

    @Test
    void chunksAreFoundAfterARestoreAndAfterRescaling() throws Exception {
        int numDocuments = 20;
        OperatorSubtaskState snapshot;
        StoreOperator before = new StoreOperator(Long.MAX_VALUE);
        try (var harness = harness(before, 1, 0)) {
            harness.open();
            for (long document = 0; document < numDocuments; document++) {
                for (int i = 1; i <= 3; i++) {
                    before.store.store(document, chain(document, i), pieces(document * 10 + i, 2, 10_000));
                }
            }
            before.drain();
            // One more is half written when the checkpoint is taken.
            before.store.store(99, chain(99, 1), pieces(99, 3, 10_000));
            before.mails.remove().run();
            snapshot = harness.snapshot(1, 1);
        }
        int numFound = 0;
        for (int subtask = 0; subtask < 2; subtask++) {
            StoreOperator after = new StoreOperator(Long.MAX_VALUE);
            try (var harness = harness(after, 2, subtask)) {
                harness.initializeState(AbstractStreamOperatorTestHarness.repartitionOperatorState(
                        snapshot, MAX_PARALLELISM, 1, 2, subtask));
                harness.open();
                for (long document = 0; document < numDocuments; document++) {
                    boolean here = subtask
                            == KeyGroupRangeAssignment.assignKeyToParallelOperator(document, MAX_PARALLELISM, 2);
                    after.store.find(document, document, chain(document, 4));
                    after.drain();
                    assertEquals(here ? 3 : 0, after.found.get(document), "document " + document);
                    if (here) {
                        numFound++;
                        after.store.load(document, document, chain(document, 3).get(2));
                        after.drain();
                        byte[] expected = pieces(document * 10 + 3, 2, 10_000)[1];
                        byte[] actual = after.loaded.get(document)[1];
                        System.arraycopy(actual, 8, expected, 8, 4); // the checksum was sealed into it
                        assertArrayEquals(expected, actual);
                    }
                }
                after.store.find(99, 99, chain(99, 1));
                after.drain();
                assertEquals(0, after.found.get(99L));
            }
        }
        assertEquals(numDocuments, numFound);
    }

    @Test
    void steadyWritingIsUploadedAboutOnce() throws Exception {
        int numPieces = 3;
        int pieceBytes = 1 << 20;
        StoreOperator operator = new StoreOperator(Long.MAX_VALUE);
        try (var harness = harness(operator, 1, 0)) {
            harness.open();
            double ratio = uploadedOverWritten(harness, operator, 0, 10, 8, numPieces, pieceBytes);
            LOG.info("ten checkpoints of steady writing: uploaded / written = {}", ratio);
            assertTrue(ratio <= 1.5, "uploaded / written = " + ratio);
            assertEquals(80L * numPieces * pieceBytes, operator.store.stats().numBytes());
        }
    }

    @Test
    void atTheCapacityWritingGoesOnAndIsReported() throws Exception {
        int pieceBytes = 1 << 20;
        StoreOperator operator = new StoreOperator(20L * pieceBytes);
        try (var harness = harness(operator, 1, 0)) {
            harness.open();
            double ratio = uploadedOverWritten(harness, operator, 0, 10, 10, 1, pieceBytes);
            LOG.info("ten checkpoints at the capacity: uploaded / written = {}", ratio);
            assertEquals(20, operator.store.stats().numChunks());
            assertEquals(80, operator.store.stats().numChunksEvicted());
        }
    }

    private static double uploadedOverWritten(
            KeyedOneInputStreamOperatorTestHarness<Long, Long, Long> harness,
            StoreOperator operator,
            long firstDocument,
            int numCheckpoints,
            int numChunksEach,
            int numPieces,
            int pieceBytes)
            throws Exception {
        long uploaded = 0;
        long writtenBefore = operator.store.stats().numBytesWritten();
        long document = firstDocument;
        for (int checkpoint = 1; checkpoint <= numCheckpoints; checkpoint++) {
            for (int i = 0; i < numChunksEach; i++) {
                operator.store.store(document, chain(document, 1), pieces(document, numPieces, pieceBytes));
                operator.drain();
                document++;
            }
            OperatorSubtaskState snapshot = harness.snapshot(checkpoint, checkpoint);
            harness.notifyOfCompletedCheckpoint(checkpoint);
            for (KeyedStateHandle handle : snapshot.getManagedKeyedState()) {
                uploaded += handle.getCheckpointedSize();
            }
        }
        return (double) uploaded / (operator.store.stats().numBytesWritten() - writtenBefore);
    }
}
