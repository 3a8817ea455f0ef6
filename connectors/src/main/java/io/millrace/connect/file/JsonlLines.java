package io.millrace.connect.file;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;

/**
 * Walks the lines of a file from a position, holding one buffer and at most one line. Lines end with LF or CRLF, the
 * last one may end with the file. One thread.
 */
final class JsonlLines implements AutoCloseable {
    private static final int BUFFER_BYTES = 64 << 10;
    /** What is kept of a line that is too long, for whoever looks for it. */
    private static final int MAX_KEPT_BYTES_OF_LONG_LINE = 4 << 10;

    private final JsonlSplit split;
    private final int maxLineBytes;
    private final FileChannel channel;
    private final ByteBuffer buffer = ByteBuffer.allocate(BUFFER_BYTES).limit(0);
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();
    private long offsetBytes;
    private long numLinesRead;
    private long lineBytes;
    private byte[] bytes;

    JsonlLines(JsonlSplit split, int maxLineBytes) throws IOException {
        long nowBytes = checkedLength(split.file());
        if (nowBytes != split.fileBytes()) {
            throw new IOException(String.format(
                    "%s has changed since the job began to read it: it had %d bytes and has %d now;"
                            + " put the file back, or start over without the checkpoint",
                    split.file(), split.fileBytes(), nowBytes));
        }
        this.split = split;
        this.maxLineBytes = maxLineBytes;
        this.offsetBytes = split.offsetBytes();
        this.numLinesRead = split.numLinesRead();
        this.channel = FileChannel.open(Path.of(split.file()), StandardOpenOption.READ);
        channel.position(offsetBytes);
    }

    /** The length of a file that can be read as lines; says what is wrong with one that cannot. */
    static long checkedLength(String file) throws IOException {
        Path path = Path.of(file);
        if (!Files.exists(path)) {
            throw new NoSuchFileException(file, null, "there is no such file; check the input's path");
        }
        if (!Files.isRegularFile(path) || !Files.isReadable(path)) {
            throw new IOException(file + " is not a readable regular file; the input must be one JSON Lines file");
        }
        return Files.size(path);
    }

    /** Reads the next line; false at the end of the file. */
    boolean next() throws IOException {
        line.reset();
        lineBytes = 0;
        boolean ended = false;
        while (!ended && (buffer.hasRemaining() || fill())) {
            int start = buffer.position();
            int end = start;
            byte[] array = buffer.array();
            while (end < buffer.limit() && array[end] != '\n') {
                end++;
            }
            ended = end < buffer.limit();
            keep(array, start, end - start);
            buffer.position(ended ? end + 1 : end);
            lineBytes += end - start;
        }
        if (!ended && lineBytes == 0) {
            return false;
        }
        offsetBytes += lineBytes + (ended ? 1 : 0);
        numLinesRead++;
        finishLine();
        return true;
    }

    private void keep(byte[] array, int start, int length) {
        // One byte more than the limit, since a carriage return at the end does not count.
        int room = maxLineBytes + 1 - line.size();
        line.write(array, start, Math.min(length, Math.max(room, 0)));
    }

    private void finishLine() {
        bytes = line.toByteArray();
        if (lineBytes == bytes.length && lineBytes > 0 && bytes[bytes.length - 1] == '\r') {
            bytes = Arrays.copyOf(bytes, bytes.length - 1);
            lineBytes--;
        }
        if (isTooLong()) {
            bytes = Arrays.copyOf(bytes, Math.min(bytes.length, MAX_KEPT_BYTES_OF_LONG_LINE));
        }
    }

    private boolean fill() throws IOException {
        buffer.clear();
        long left = split.fileBytes() - channel.position();
        buffer.limit((int) Math.min(left, BUFFER_BYTES));
        int numRead = buffer.hasRemaining() ? channel.read(buffer) : 0;
        buffer.flip();
        if (numRead < 0) {
            throw new IOException(split.file() + " was cut while it was read: it ends at byte " + channel.position()
                    + " of " + split.fileBytes());
        }
        return numRead > 0;
    }

    /** The line without its end; the beginning only, if it is too long. */
    byte[] bytes() {
        return bytes;
    }

    /** The line's whole length without its end. */
    long lineBytes() {
        return lineBytes;
    }

    boolean isTooLong() {
        return lineBytes > maxLineBytes;
    }

    boolean isBlank() {
        for (byte b : bytes) {
            if (b != ' ' && b != '\t' && b != '\r') {
                return false;
            }
        }
        return true;
    }

    /** Where the next line begins. */
    long offsetBytes() {
        return offsetBytes;
    }

    /** The number of the current line, counted from 1. */
    long numLinesRead() {
        return numLinesRead;
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
