package io.millrace.operators.tier;

import io.millrace.operators.tier.Segments.Piece;
import io.millrace.operators.tier.Segments.Segment;
import io.millrace.prefix.ChunkKey;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.ChecksumType;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.CompressionType;
import org.rocksdb.DBOptions;
import org.rocksdb.FlushOptions;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksObject;
import org.rocksdb.WriteOptions;

/**
 * Pieces in a RocksDB of their own, set up so that a piece is written once and touched as little as can be, since the cores that
 * write are those that compute: no log, as nothing is read after a failure; no compression, as KV does not compress; no
 * checksums, as every piece has its own, which is looked at later (and those of RocksDB's blob files are computed by table, which
 * costs more than all the rest of writing); files go past the page cache where the file system lets them.
 *
 * <p>Nothing is compacted either. Pieces go to a column family, the segment, until that has a thirty-second of the capacity, and then
 * to a new one. To get room back, what is still wanted of a segment is written again and the column family is dropped, files and
 * all.
 */
final class RocksPieceDatabase implements PieceDatabase {
    private static final long MAX_WRITE_BUFFER_BYTES = 32L << 20;
    private static final int SEGMENTS_PER_CAPACITY = 32;
    private static final long MIN_SEGMENT_BYTES = 1L << 20;

    /** Of the capacity: files beyond that have segments rewritten for the sake of what is unwanted in them. */
    private static final double FULL_SHARE = 0.875;

    private final StoreDirectory directory;
    private final long capacityBytes;
    private final Deque<RocksObject> options = new ArrayDeque<>();
    private final ColumnFamilyOptions segmentOptions;
    private final WriteOptions writeOptions;
    private final ReadOptions readOptions;
    private final FlushOptions flushOptions;
    private final ColumnFamilyHandle defaultFamily;
    private final Segments<ColumnFamilyHandle> segments;
    private final RocksDB db;
    private int numSegmentsBegun; // writer's

    /**
     * Makes an empty one.
     *
     * @param directory deleted at close
     */
    RocksPieceDatabase(StoreDirectory directory, long capacityBytes, boolean usesDirectReads) throws IOException {
        this.directory = directory;
        this.capacityBytes = capacityBytes;
        RocksDB.loadLibrary();
        long segmentBytes = Math.max(MIN_SEGMENT_BYTES, capacityBytes / SEGMENTS_PER_CAPACITY);
        segments = new Segments<>(segmentBytes);
        segmentOptions = keep(new ColumnFamilyOptions())
                .setCompressionType(CompressionType.NO_COMPRESSION)
                .setDisableAutoCompactions(true)
                .setWriteBufferSize(Math.min(MAX_WRITE_BUFFER_BYTES, segmentBytes))
                // A block cache that nothing is put into: without one, each read copies its value once more.
                .setTableFormatConfig(new BlockBasedTableConfig().setChecksumType(ChecksumType.kNoChecksum));
        DBOptions opened = keep(new DBOptions())
                .setCreateIfMissing(true)
                .setErrorIfExists(true)
                .setUseDirectReads(usesDirectReads)
                .setUseDirectIoForFlushAndCompaction(directory.takesDirectWrites())
                .setAvoidFlushDuringShutdown(true)
                .setKeepLogFileNum(1)
                .setStatsDumpPeriodSec(0);
        writeOptions = keep(new WriteOptions()).setDisableWAL(true);
        readOptions = keep(new ReadOptions()).setVerifyChecksums(false).setFillCache(false);
        flushOptions = keep(new FlushOptions()).setWaitForFlush(false);
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        try {
            db = RocksDB.open(
                    opened,
                    directory.path().resolve("db").toString(),
                    List.of(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, segmentOptions)),
                    handles);
        } catch (RocksDBException e) {
            closeOptions();
            throw new IOException("RocksDB cannot be opened under " + directory.path() + ": " + e.getMessage(), e);
        }
        defaultFamily = handles.get(0);
    }

    private <T extends RocksObject> T keep(T object) {
        options.push(object);
        return object;
    }

    private static byte[] databaseKey(Piece piece) {
        return ByteBuffer.allocate(ChunkKey.NUM_BYTES + Integer.BYTES)
                .putLong(piece.key().high())
                .putLong(piece.key().low())
                .putInt(piece.number())
                .array();
    }

    @Override
    public boolean read(ChunkKey key, int piece, byte[] into) throws IOException {
        Piece wanted = new Piece(key, piece);
        Segment<ColumnFamilyHandle> segment = segments.enter(wanted, into.length);
        if (segment == null) {
            return false;
        }
        try {
            return read(segment, wanted, into);
        } catch (RocksDBException e) {
            throw new IOException(e.getMessage(), e);
        } finally {
            if (segments.leave(segment)) {
                segment.storage.close();
            }
        }
    }

    private boolean read(Segment<ColumnFamilyHandle> segment, Piece piece, byte[] into) throws RocksDBException {
        return db.get(segment.storage, readOptions, databaseKey(piece), into) == into.length;
    }

    @Override
    public void write(ChunkKey key, int piece, byte[] bytes) throws IOException {
        Piece written = new Piece(key, piece);
        try {
            segments.add(append(written, bytes), written, bytes.length);
        } catch (RocksDBException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    private Segment<ColumnFamilyHandle> append(Piece piece, byte[] bytes) throws RocksDBException {
        Segment<ColumnFamilyHandle> open = segments.open();
        Segment<ColumnFamilyHandle> segment = open != null ? open : beginSegment();
        db.put(segment.storage, writeOptions, databaseKey(piece), bytes);
        return segment;
    }

    private Segment<ColumnFamilyHandle> beginSegment() throws RocksDBException {
        List<Segment<ColumnFamilyHandle>> others = segments.all();
        if (!others.isEmpty()) {
            db.flush(flushOptions, others.get(others.size() - 1).storage); // it gets no more, and is to leave memory
        }
        byte[] name =
                ByteBuffer.allocate(Integer.BYTES).putInt(++numSegmentsBegun).array();
        return segments.begin(db.createColumnFamily(new ColumnFamilyDescriptor(name, segmentOptions)));
    }

    @Override
    public void remove(ChunkKey key, int piece) {
        segments.remove(new Piece(key, piece));
    }

    /** Drops segments of which nothing is wanted; if files are many still, those too of which little is. */
    @Override
    public void reclaim() throws IOException {
        try {
            Segment<ColumnFamilyHandle> least = segments.leastWanted(0);
            while (least != null) {
                drop(least);
                least = segments.leastWanted(0);
            }
            while (segments.numBytes() > FULL_SHARE * capacityBytes) {
                least = segments.leastWanted(Long.MAX_VALUE);
                if (least == null) {
                    return;
                }
                rewrite(least);
                drop(least);
            }
        } catch (RocksDBException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    private void rewrite(Segment<ColumnFamilyHandle> segment) throws RocksDBException {
        for (Map.Entry<Piece, Integer> each : segments.wanted(segment).entrySet()) {
            byte[] bytes = new byte[each.getValue()];
            if (read(segment, each.getKey(), bytes)) { // a lost one is found missing when it is read
                segments.move(segment, append(each.getKey(), bytes), each.getKey(), bytes.length);
            }
        }
    }

    private void drop(Segment<ColumnFamilyHandle> segment) throws RocksDBException {
        db.dropColumnFamily(segment.storage);
        if (segments.remove(segment)) {
            segment.storage.close();
        }
    }

    @Override
    public long numFileBytes() throws IOException {
        try {
            return db.getAggregatedLongProperty("rocksdb.total-sst-files-size");
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
        segments.all().forEach(segment -> segment.storage.close());
        defaultFamily.close();
        db.close();
        closeOptions();
        directory.close();
    }

    private void closeOptions() {
        options.forEach(RocksObject::close);
    }
}
