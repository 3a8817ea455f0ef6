package io.millrace.job.state;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Optional;

/** Small JSON files that a reader finds whole or not at all, whenever the writer was killed. */
public final class AtomicFiles {

    private static final ObjectMapper JSON = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);

    private AtomicFiles() {}

    /** Writes to a temporary file, forces it to disk, and moves it into place. */
    public static void write(Path file, Object value) {
        try {
            Files.createDirectories(file.toAbsolutePath().getParent());
            Path temporary = file.resolveSibling("." + file.getFileName() + ".tmp");
            byte[] bytes = (JSON.writeValueAsString(value) + "\n").getBytes(java.nio.charset.StandardCharsets.UTF_8);
            try (FileChannel channel = FileChannel.open(
                    temporary,
                    StandardOpenOption.CREATE,
                    StandardOpenOption.WRITE,
                    StandardOpenOption.TRUNCATE_EXISTING)) {
                ByteBuffer buffer = ByteBuffer.wrap(bytes);
                while (buffer.hasRemaining()) {
                    channel.write(buffer);
                }
                channel.force(true);
            }
            Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException e) {
            throw new UncheckedIOException("file " + file + " could not be written: " + e.getMessage(), e);
        }
    }

    /** The file's content; empty where there is no file. */
    public static Optional<JsonNode> read(Path file) {
        if (!Files.exists(file)) {
            return Optional.empty();
        }
        try {
            return Optional.of(JSON.readTree(file.toFile()));
        } catch (IOException e) {
            throw new UncheckedIOException("file " + file + " could not be read: " + e.getMessage(), e);
        }
    }

    /** The file's content as a value; empty where there is no file. */
    public static <T> Optional<T> read(Path file, Class<T> type) {
        return read(file).map(node -> JSON.convertValue(node, type));
    }
}
