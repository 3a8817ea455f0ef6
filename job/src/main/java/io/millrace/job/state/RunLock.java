package io.millrace.job.state;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Makes sure that one process at a time works in a state directory. It is a lock of the operating system on the file
 * {@code lock}, which ends with the process however it ends: what a killed process left behind holds nobody up. The file's
 * content, the holder's process id, is for messages alone.
 */
public final class RunLock implements AutoCloseable {

    private final FileChannel channel;
    private final FileLock lock;

    private RunLock(FileChannel channel, FileLock lock) {
        this.channel = channel;
        this.lock = lock;
    }

    /** @throws StateException if another process, or this one already, works in the directory, or it cannot be written to */
    public static RunLock acquire(Path stateDirectory) {
        Path file = stateDirectory.resolve("lock");
        try {
            Files.createDirectories(stateDirectory);
            FileChannel channel = FileChannel.open(
                    file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
            FileLock lock = tryLock(channel);
            if (lock == null) {
                String holder = holder(channel);
                channel.close();
                throw new StateException("state directory " + stateDirectory + " is in use by " + holder
                        + "; wait for it or stop it, or choose another with --state");
            }
            channel.truncate(0);
            channel.write(
                    ByteBuffer.wrap(Long.toString(ProcessHandle.current().pid()).getBytes(StandardCharsets.US_ASCII)),
                    0);
            return new RunLock(channel, lock);
        } catch (IOException e) {
            throw new StateException(
                    "state directory " + stateDirectory + " cannot be used: " + e + "; choose another with --state", e);
        }
    }

    @Override
    public void close() {
        try {
            lock.release();
            channel.close();
        } catch (IOException e) {
            throw new StateException("the lock of the state directory could not be released: " + e.getMessage(), e);
        }
    }

    private static FileLock tryLock(FileChannel channel) throws IOException {
        try {
            return channel.tryLock();
        } catch (OverlappingFileLockException heldByThisProcess) {
            return null;
        }
    }

    private static String holder(FileChannel channel) throws IOException {
        ByteBuffer content = ByteBuffer.allocate(20);
        channel.read(content, 0);
        String pid = new String(content.array(), 0, content.position(), StandardCharsets.US_ASCII).strip();
        return pid.isEmpty() ? "another process" : "process " + pid;
    }
}
