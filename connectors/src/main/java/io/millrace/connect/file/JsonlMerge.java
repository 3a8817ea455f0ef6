package io.millrace.connect.file;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Merges the part files that {@link JsonlSink} committed into one file, ordered by source line and sample index,
 * whatever the order in which results came out. Only part files are read, so that merging again gives the same file.
 * The output shows complete or not at all: it is written beside its place, forced to disk and renamed.
 */
public final class JsonlMerge {
    private static final Logger LOG = LoggerFactory.getLogger(JsonlMerge.class);
    private static final int BUFFER_BYTES = 1 << 20;

    private final PartFiles parts;
    private final List<PartLine> lines = new ArrayList<>();
    /** One copy of each source file's name, instead of one a line. */
    private final Map<String, String> fileNames = new HashMap<>();

    private final Set<String> samples = new HashSet<>();
    private long numErrors;
    private long numRepeatedLines;

    /**
     * What the merged file holds.
     *
     * @param numCompletions lines with a completion
     * @param numErrors lines with an error
     * @param numRepeatedLines lines that stood in the part files a second time with the same bytes, and are once in the
     *     output: files that a crashed run committed behind the checkpoint from which the job went on
     */
    public record Result(long numCompletions, long numErrors, long numRepeatedLines) {}

    private JsonlMerge(PartFiles parts) {
        this.parts = parts;
    }

    /**
     * Merges.
     *
     * @param partDirectory where the sinks wrote; the job must have ended
     * @param output replaced if it exists
     * @throws IOException if a part is damaged, a result is there twice with different content, one request_id and index
     *     stand for two results, or the output cannot be written; the output is untouched then
     */
    public static Result merge(Path partDirectory, Path output) throws IOException {
        if (!Files.isDirectory(partDirectory)) {
            throw new NotDirectoryException(partDirectory + ": there are no part files to merge");
        }
        try (PartFiles parts = new PartFiles(partDirectory)) {
            JsonlMerge merge = new JsonlMerge(parts);
            parts.forEachLine(merge::add);
            merge.lines.sort(PartLine.SOURCE_ORDER);
            return merge.write(output.toAbsolutePath());
        }
    }

    private void add(int part, long offsetBytes, byte[] line) throws IOException {
        PartLine.Fields fields;
        try {
            fields = PartLine.Fields.read(line);
        } catch (IOException e) {
            throw new IOException(
                    parts.path(part) + " is damaged at byte " + offsetBytes + ": " + e.getMessage()
                            + "; resume the job from a checkpoint, or start it over",
                    e);
        }
        String file = fileNames.computeIfAbsent(fields.file, name -> name);
        int index = fields.error ? PartLine.ERROR : fields.index;
        lines.add(new PartLine(part, offsetBytes, line.length, file, fields.line, index));
    }

    private Result write(Path output) throws IOException {
        Path directory = output.getParent();
        Files.createDirectories(directory);
        Path unfinished = directory.resolve("." + output.getFileName() + ".merging");
        try (FileChannel channel = FileChannel.open(
                unfinished,
                StandardOpenOption.CREATE,
                StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING)) {
            OutputStream out = new BufferedOutputStream(Channels.newOutputStream(channel), BUFFER_BYTES);
            writeLines(out);
            out.flush();
            channel.force(true);
        } catch (IOException e) {
            Files.deleteIfExists(unfinished);
            throw e;
        }
        Files.move(unfinished, output, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        try (FileChannel entry = FileChannel.open(directory, StandardOpenOption.READ)) {
            // The rename itself must survive a power cut too.
            entry.force(true);
        }
        if (numRepeatedLines > 0) {
            LOG.info(
                    "{} lines of {} part files were there twice with equal bytes, left by a run that was cut off;"
                            + " each is once in {}",
                    numRepeatedLines,
                    parts.size(),
                    output);
        }
        return new Result(lines.size() - numRepeatedLines - numErrors, numErrors, numRepeatedLines);
    }

    private void writeLines(OutputStream out) throws IOException {
        PartLine last = null;
        byte[] lastBytes = null;
        for (PartLine line : lines) {
            byte[] bytes = parts.read(line);
            if (last != null && last.holdsSameResultAs(line)) {
                checkRepeated(last, lastBytes, line, bytes);
                numRepeatedLines++;
                continue;
            }
            checkSampleIsNew(line, bytes);
            out.write(bytes);
            out.write('\n');
            last = line;
            lastBytes = bytes;
        }
    }

    private void checkRepeated(PartLine first, byte[] firstBytes, PartLine second, byte[] secondBytes)
            throws IOException {
        if (!Arrays.equals(firstBytes, secondBytes)) {
            throw new IOException(String.format(
                    "%s is there twice and differs: %s at byte %d, %s at byte %d; the part files are of two jobs:"
                            + " empty the directory and start the job over",
                    first.result(),
                    parts.path(first.part()),
                    first.offsetBytes(),
                    parts.path(second.part()),
                    second.offsetBytes()));
        }
    }

    private void checkSampleIsNew(PartLine line, byte[] bytes) throws IOException {
        if (line.isError()) {
            numErrors++;
            return;
        }
        String requestId = PartLine.Fields.read(bytes).requestId;
        // The index first: it has no space in it, so that no two pairs give one text.
        if (!samples.add(line.index() + " " + requestId)) {
            throw new IOException(String.format(
                    "request_id \"%s\" has two completions of index %d, the second is %s;"
                            + " give every line of the input its own request_id",
                    requestId, line.index(), line.result()));
        }
    }
}
