package io.millrace.job.stream;

import io.millrace.job.state.AtomicFiles;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/**
 * How other processes find a running job: {@code run.json} in its state directory, there while the job runs. A killed process
 * leaves it behind; whoever reads it must expect that nobody answers.
 *
 * @param restAddress of the job's cluster
 * @param jobId of the job, hexadecimal
 * @param pid of the process
 */
public record RunFile(String restAddress, String jobId, long pid) {

    private static Path path(Path stateDirectory) {
        return stateDirectory.resolve("run.json");
    }

    void write(Path stateDirectory) {
        AtomicFiles.write(path(stateDirectory), this);
    }

    static Optional<RunFile> read(Path stateDirectory) {
        return AtomicFiles.read(path(stateDirectory), RunFile.class);
    }

    static void delete(Path stateDirectory) {
        try {
            Files.deleteIfExists(path(stateDirectory));
        } catch (IOException e) {
            throw new UncheckedIOException(path(stateDirectory) + " could not be deleted: " + e.getMessage(), e);
        }
    }
}
