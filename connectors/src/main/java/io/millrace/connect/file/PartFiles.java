package io.millrace.connect.file;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * The committed part files of a directory, in the order of their names, with random access to their lines. Files in
 * progress have names that begin with a dot; they and whatever else lies in the directory are not part files. One
 * thread.
 */
final class PartFiles implements AutoCloseable {
    /** A long run has more parts than a process may have open files. */
    private static final int MAX_OPEN_FILES = 64;

    private static final int BUFFER_BYTES = 1 << 16;

    private final List<Path> parts;
    private final Map<Integer, FileChannel> open = new LinkedHashMap<>(16, 0.75f, true);

    /** Takes a line of a part file. */
    @FunctionalInterface
    interface LineConsumer {
        void accept(int part, long offsetBytes, byte[] line) throws IOException;
    }

    PartFiles(Path directory) throws IOException {
        try (Stream<Path> files = Files.list(directory)) {
            parts = files.filter(PartFiles::isCommitted).sorted().toList();
        }
    }

    private static boolean isCommitted(Path file) {
        String name = file.getFileName().toString();
        return (name.startsWith(JsonlSink.COMPLETIONS + "-") || name.startsWith(JsonlSink.ERRORS + "-"))
                && name.endsWith(JsonlSink.PART_SUFFIX)
                && Files.isRegularFile(file);
    }

    Path path(int part) {
        return parts.get(part);
    }

    int size() {
        return parts.size();
    }

    /** Every line of every part, in order. */
    void forEachLine(LineConsumer consumer) throws IOException {
        for (int part = 0; part < parts.size(); part++) {
            try (InputStream in = new BufferedInputStream(Files.newInputStream(parts.get(part)), BUFFER_BYTES)) {
                forEachLine(part, in, consumer);
            }
        }
    }

    private void forEachLine(int part, InputStream in, LineConsumer consumer) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        long offsetBytes = 0;
        for (int b = in.read(); b >= 0; b = in.read()) {
            if (b != '\n') {
                line.write(b);
                continue;
            }
            consumer.accept(part, offsetBytes, line.toByteArray());
            offsetBytes += line.size() + 1;
            line.reset();
        }
        if (line.size() > 0) {
            throw new IOException(parts.get(part) + " ends in the middle of a line at byte " + offsetBytes
                    + ": it is damaged; resume the job from a checkpoint, or start it over");
        }
    }

    byte[] read(PartLine line) throws IOException {
        FileChannel channel = channel(line.part());
        ByteBuffer bytes = ByteBuffer.allocate(line.numBytes());
        while (bytes.hasRemaining()) {
            if (channel.read(bytes, line.offsetBytes() + bytes.position()) < 0) {
                throw new IOException(path(line.part()) + " was cut while it was merged");
            }
        }
        return bytes.array();
    }

    private FileChannel channel(int part) throws IOException {
        FileChannel channel = open.get(part);
        if (channel != null) {
            return channel;
        }
        if (open.size() == MAX_OPEN_FILES) {
            Integer leastRecent = open.keySet().iterator().next();
            open.remove(leastRecent).close();
        }
        channel = FileChannel.open(parts.get(part), StandardOpenOption.READ);
        open.put(part, channel);
        return channel;
    }

    @Override
    public void close() throws IOException {
        for (FileChannel channel : open.values()) {
            channel.close();
        }
    }
}
