package io.millrace.operators.tier;

import java.util.Collection;
import java.util.List;
import org.apache.flink.state.rocksdb.RocksDBOptionsFactory;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.CompactionOptionsUniversal;
import org.rocksdb.CompactionStyle;
import org.rocksdb.CompressionType;
import org.rocksdb.DBOptions;

/**
 * RocksDB for a state that holds values of a megabyte which are written once and read whole; docs/operations.md explains each
 * setting. Flink names no state here, so that the small states of the same operator get the same, and do well with it.
 * Set by the name of the class as {@code state.backend.rocksdb.options-factory}.
 */
public final class TierRocksDbOptions implements RocksDBOptionsFactory {
    private static final long serialVersionUID = 1L;

    /** Runs of sorted files that may pile up before they are merged: a merge writes, and uploads, everything in them again. */
    static final int MAX_SORTED_RUNS = 128;

    /** Garbage and unmerged runs in percent of the oldest run before everything is merged. */
    static final int MAX_SIZE_AMPLIFICATION_PERCENT = 200;

    /** A checkpoint writes what is in memory while the task waits, so there should not be much. */
    static final long WRITE_BUFFER_BYTES = 32L << 20;

    private static final int MAX_WRITE_BUFFERS = 4;
    private static final int BLOOM_BITS_PER_KEY = 10;
    private static final long BYTES_PER_SYNC = 1L << 20;

    @Override
    public DBOptions createDBOptions(DBOptions options, Collection<AutoCloseable> handlesToClose) {
        return options.setBytesPerSync(BYTES_PER_SYNC);
    }

    @Override
    public ColumnFamilyOptions createColumnOptions(
            ColumnFamilyOptions options, Collection<AutoCloseable> handlesToClose) {
        CompactionOptionsUniversal universal =
                new CompactionOptionsUniversal().setMaxSizeAmplificationPercent(MAX_SIZE_AMPLIFICATION_PERCENT);
        BloomFilter filter = new BloomFilter(BLOOM_BITS_PER_KEY);
        handlesToClose.add(universal);
        handlesToClose.add(filter);
        BlockBasedTableConfig table =
                options.tableFormatConfig() instanceof BlockBasedTableConfig set ? set : new BlockBasedTableConfig();
        return options.setCompressionPerLevel(List.of())
                .setCompressionType(CompressionType.NO_COMPRESSION)
                .setEnableBlobFiles(false)
                .setCompactionStyle(CompactionStyle.UNIVERSAL)
                .setCompactionOptionsUniversal(universal)
                .setLevel0FileNumCompactionTrigger(MAX_SORTED_RUNS)
                .setLevel0SlowdownWritesTrigger(2 * MAX_SORTED_RUNS)
                .setLevel0StopWritesTrigger(4 * MAX_SORTED_RUNS)
                .setWriteBufferSize(WRITE_BUFFER_BYTES)
                .setMaxWriteBufferNumber(MAX_WRITE_BUFFERS)
                .setTableFormatConfig(table.setFilterPolicy(filter));
    }
}
