package io.millrace.model;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * A read-only memory-mapped file of any size. A JDK 17 mapping holds at most 2 GiB, so the file is mapped in windows, each
 * at its first use; a window reaches {@value #OVERLAP_BYTES} bytes into the next one so that no element is cut in two.
 * Any thread may read. A mapping ends when the garbage collector finds it unused; the file must not change meanwhile.
 */
final class MappedFile {
    static final long DEFAULT_WINDOW_BYTES = 1L << 30;
    private static final int OVERLAP_BYTES = 8;

    private final Path path;
    private final long sizeBytes;
    private final long windowBytes;
    private final AtomicReferenceArray<ByteBuffer> windows;

    MappedFile(Path path, long windowBytes) throws IOException {
        if (windowBytes < 1 || windowBytes > Integer.MAX_VALUE - OVERLAP_BYTES) {
            throw new IllegalArgumentException("windowBytes = " + windowBytes + " must lie in [1, 2^31 - 9]");
        }
        this.path = path;
        this.sizeBytes = Files.size(path);
        this.windowBytes = windowBytes;
        this.windows = new AtomicReferenceArray<>((int) ((sizeBytes + windowBytes - 1) / windowBytes));
    }

    Path path() {
        return path;
    }

    long sizeBytes() {
        return sizeBytes;
    }

    /**
     * Gives a little-endian view from an offset on: at least 8 bytes or up to the file's end, at most maxBytes, as long as
     * one window allows. The view is the caller's own.
     */
    ByteBuffer view(long offset, long maxBytes) {
        int index = (int) (offset / windowBytes);
        ByteBuffer window = window(index);
        int start = (int) (offset - index * windowBytes);
        int length = (int) Math.min(maxBytes, window.capacity() - start);
        return window.slice(start, length).order(ByteOrder.LITTLE_ENDIAN);
    }

    private ByteBuffer window(int index) {
        ByteBuffer window = windows.get(index);
        if (window == null) {
            window = map(index);
            if (!windows.compareAndSet(index, null, window)) {
                window = windows.get(index);
            }
        }
        return window;
    }

    private ByteBuffer map(int index) {
        long start = index * windowBytes;
        long length = Math.min(windowBytes + OVERLAP_BYTES, sizeBytes - start);
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            if (channel.size() != sizeBytes) {
                throw new InvalidModelException(path + " changed its size from " + sizeBytes + " to " + channel.size()
                        + " bytes while in use; restart with an unchanging model directory");
            }
            return channel.map(FileChannel.MapMode.READ_ONLY, start, length);
        } catch (IOException e) {
            throw new InvalidModelException(
                    path + " cannot be memory-mapped at bytes " + start + " to " + (start + length) + ": "
                            + e.getMessage(),
                    e);
        }
    }
}
