package io.millrace.operators.tier;

import io.millrace.prefix.ChunkKey;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.CompressionType;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksObject;
import org.rocksdb.WriteOptions;

/**
 * Pieces in a RocksDB of their own: no log, since nothing is read after a failure; no compression, since KV does not
 * compress; values in blob files, so that compactions move keys alone and a value is one read. RocksDB verifies no checksums:
 * every piece has its own, which is looked at later.
 */
final class RocksPieceDatabase implements PieceDatabase {
    private static final long MAX_WRITE_BUFFER_BYTES = 32L << 20;
    private static final long MAX_BLOB_FILE_BYTES = 64L << 20;
    private static final int WRITE_BUFFERS_PER_CAPACITY = 16;
    private static final int BLOB_FILES_PER_CAPACITY = 32;
    private static final long MIN_FILE_BYTES = 1L << 20;
    private static final int MIN_BLOB_BYTES = 1024;
    private static final long BYTES_PER_SYNC = 1L << 20;

    /** Share of the oldest blob files whose live values a compaction moves, so that the files can go. */
    private static final double BLOB_AGE_CUTOFF = 0.25;

    private final StoreDirectory directory;
    private final Deque<RocksObject> options = new ArrayDeque<>();
    private final WriteOptions writeOptions;
    private final ReadOptions readOptions;
    private final RocksDB db;

    /**
     * Makes an empty one.
     *
     * @param directory deleted at close
     */
    RocksPieceDatabase(StoreDirectory directory, long capacityBytes, boolean usesDirectReads) throws IOException {
        this.directory = directory;
        RocksDB.loadLibrary();
        long writeBuffer = clamp(capacityBytes / WRITE_BUFFERS_PER_CAPACITY, MAX_WRITE_BUFFER_BYTES);
        long blobFile = clamp(capacityBytes / BLOB_FILES_PER_CAPACITY, MAX_BLOB_FILE_BYTES);
        Options opened = keep(new Options())
                .setCreateIfMissing(true)
                .setErrorIfExists(true)
                .setCompressionType(CompressionType.NO_COMPRESSION)
                .setEnableBlobFiles(true)
                .setMinBlobSize(MIN_BLOB_BYTES)
                .setBlobFileSize(blobFile)
                .setBlobCompressionType(CompressionType.NO_COMPRESSION)
                .setEnableBlobGarbageCollection(true)
                .setBlobGarbageCollectionAgeCutoff(BLOB_AGE_CUTOFF)
                .setWriteBufferSize(writeBuffer)
                .setBytesPerSync(BYTES_PER_SYNC)
                .setUseDirectReads(usesDirectReads)
                .setAvoidFlushDuringShutdown(true)
                .setKeepLogFileNum(1)
                .setStatsDumpPeriodSec(0);
        writeOptions = keep(new WriteOptions()).setDisableWAL(true);
        readOptions = keep(new ReadOptions()).setVerifyChecksums(false).setFillCache(false);
        try {
            db = RocksDB.open(opened, directory.path().resolve("db").toString());
        } catch (RocksDBException e) {
            closeOptions();
            throw new IOException("RocksDB cannot be opened under " + directory.path() + ": " + e.getMessage(), e);
        }
    }

    private static long clamp(long bytes, long most) {
        return Math.max(MIN_FILE_BYTES, Math.min(most, bytes));
    }

    private <T extends RocksObject> T keep(T object) {
        options.push(object);
        return object;
    }

    private static byte[] databaseKey(ChunkKey key, int piece) {
        return ByteBuffer.allocate(ChunkKey.NUM_BYTES + Integer.BYTES)
                .putLong(key.high())
                .putLong(key.low())
                .putInt(piece)
                .array();
    }

    @Override
    public byte[] read(ChunkKey key, int piece, int numBytes) throws IOException {
        byte[] bytes = new byte[numBytes];
        try {
            return db.get(readOptions, databaseKey(key, piece), bytes) == numBytes ? bytes : null;
        } catch (RocksDBException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    @Override
    public void write(ChunkKey key, int piece, byte[] bytes) throws IOException {
        try {
            db.put(writeOptions, databaseKey(key, piece), bytes);
        } catch (RocksDBException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    @Override
    public void remove(ChunkKey key, int piece) throws IOException {
        try {
            db.delete(writeOptions, databaseKey(key, piece));
        } catch (RocksDBException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    /** Removed keys are only dropped, and their blob files with them, when all levels are compacted into one: keys alone. */
    @Override
    public void reclaim() throws IOException {
        try (FlushOptions flush = new FlushOptions();
                CompactRangeOptions range = new CompactRangeOptions()) {
            db.flush(flush);
            range.setBottommostLevelCompaction(CompactRangeOptions.BottommostLevelCompaction.kForce);
            db.compactRange(db.getDefaultColumnFamily(), null, null, range);
        } catch (RocksDBException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    @Override
    public long numFileBytes() throws IOException {
        try {
            return db.getLongProperty("rocksdb.total-blob-file-size")
                    + db.getLongProperty("rocksdb.total-sst-files-size");
        } catch (RocksDBException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    @Override
    public boolean isThere() {
        return directory.isThere();
    }

    @Override
    public void close() {
        db.cancelAllBackgroundWork(true);
        db.close();
        closeOptions();
        directory.close();
    }

    private void closeOptions() {
        options.forEach(RocksObject::close);
    }
}
