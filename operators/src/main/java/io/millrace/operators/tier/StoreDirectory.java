package io.millrace.operators.tier;

import com.sun.nio.file.ExtendedOpenOption;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Comparator;
import java.util.UUID;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A directory of this process alone below one that processes share. A lock on a file in it says that its process lives; whoever
 * makes a new one deletes those whose locks are free. Nothing in one outlives its process, so nothing stale is ever read.
 */
final class StoreDirectory implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(StoreDirectory.class);
    private static final String PREFIX = "prefix-kv-";
    private static final String LOCK_NAME = "in-use.lock";
    private static final String PROBE_NAME = "direct-write.probe";
    private static final int MAX_LOCK_ATTEMPTS = 500;

    private final Path path;
    private final FileChannel lockChannel; // the lock goes with it

    private StoreDirectory(Path path, FileChannel lockChannel) {
        this.path = path;
        this.lockChannel = lockChannel;
    }

    /** Makes a new directory, after deleting those of the dead. */
    static StoreDirectory create(Path parent) throws IOException {
        Files.createDirectories(parent);
        try (FileChannel channel = openLockFile(parent);
                FileLock turn = await(channel, parent)) {
            deleteDead(parent);
            Path path = Files.createDirectory(parent.resolve(PREFIX + UUID.randomUUID()));
            FileChannel lock = openLockFile(path);
            if (!turn.isValid() || lock.tryLock() == null) {
                throw new IOException("the new directory " + path + " is locked by another process");
            }
            return new StoreDirectory(path, lock);
        }
    }

    private static FileChannel openLockFile(Path directory) throws IOException {
        return FileChannel.open(directory.resolve(LOCK_NAME), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
    }

    private static FileLock await(FileChannel channel, Path parent) throws IOException {
        for (int attempt = 0; attempt < MAX_LOCK_ATTEMPTS; attempt++) {
            FileLock lock = tryLock(channel);
            if (lock != null) {
                return lock;
            }
            try {
                Thread.sleep(10);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IOException("interrupted while waiting for the lock of " + parent, e);
            }
        }
        throw new IOException(
                "another process holds " + parent.resolve(LOCK_NAME) + "; end it, or use another --tier-directory");
    }

    /** Null if another holds it, in this process or elsewhere. */
    private static FileLock tryLock(FileChannel channel) throws IOException {
        try {
            return channel.tryLock();
        } catch (OverlappingFileLockException e) {
            return null;
        }
    }

    private static void deleteDead(Path parent) throws IOException {
        try (DirectoryStream<Path> siblings = Files.newDirectoryStream(parent, PREFIX + "*")) {
            for (Path sibling : siblings) {
                boolean isDead;
                try (FileChannel channel = openLockFile(sibling)) {
                    isDead = tryLock(channel) != null;
                }
                if (isDead) {
                    delete(sibling);
                    LOG.info("deleted prefix KV that a process left behind when it died: {}", sibling);
                }
            }
        }
    }

    Path path() {
        return path;
    }

    /** Whether nobody has deleted it. */
    boolean isThere() {
        return Files.exists(path.resolve(LOCK_NAME));
    }

    /** Whether its file system takes writes that go past the page cache; says so once if not. */
    boolean takesDirectWrites() {
        Path probe = path.resolve(PROBE_NAME);
        try (FileChannel channel = FileChannel.open(
                probe, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE, ExtendedOpenOption.DIRECT)) {
            int blockBytes = Math.toIntExact(Files.getFileStore(path).getBlockSize());
            ByteBuffer block = ByteBuffer.allocateDirect(2 * blockBytes).alignedSlice(blockBytes);
            channel.write(block.limit(blockBytes));
            return true;
        } catch (IOException | UnsupportedOperationException e) {
            LOG.warn(
                    "The file system of {} takes no direct writes ({}), so the prefix tier writes through the page cache, which"
                            + " takes computing time. Remedy: a --tier-directory on ext4 or xfs.",
                    path,
                    e.toString());
            return false;
        } finally {
            deleteProbe(probe);
        }
    }

    private static void deleteProbe(Path probe) {
        try {
            Files.deleteIfExists(probe);
        } catch (IOException e) {
            LOG.warn("could not delete {}: {}", probe, e.toString());
        }
    }

    /** Deletes it with everything in it, as far as possible. */
    @Override
    public void close() {
        try {
            lockChannel.close();
            delete(path);
        } catch (IOException e) {
            LOG.warn("could not delete {}: {}; delete it by hand", path, e.toString());
        }
    }

    private static void delete(Path tree) throws IOException {
        if (!Files.exists(tree)) {
            return;
        }
        try (Stream<Path> files = Files.walk(tree)) {
            for (Path file : (Iterable<Path>) files.sorted(Comparator.reverseOrder())::iterator) {
                Files.deleteIfExists(file);
            }
        }
    }
}
