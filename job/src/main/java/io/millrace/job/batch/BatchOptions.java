package io.millrace.job.batch;

import io.millrace.engine.EngineConfig;
import io.millrace.engine.InvalidConfigException;
import io.millrace.job.cluster.ClusterOptions;
import io.millrace.operators.tier.TierOptions;
import io.millrace.schemas.Sampling;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.Optional;

/**
 * A batch to run.
 *
 * @param input JSON Lines file of prompts
 * @param output JSON Lines file of results, written at the end
 * @param summary JSON file of the batch's figures, written last
 * @param engine the engine
 * @param tier where prefix KV is kept below the engine's block pool
 * @param samplingDefaults settings below a request's own
 * @param seed mixed into the seeds of requests that bring none
 * @param cluster where and how the job runs; its state directory is the batch's
 * @param allowFingerprintChange go on from a checkpoint of another machine's arithmetic
 */
public record BatchOptions(
        Path input,
        Path output,
        Optional<Path> summary,
        EngineConfig engine,
        TierOptions tier,
        Sampling samplingDefaults,
        long seed,
        ClusterOptions cluster,
        boolean allowFingerprintChange) {

    public BatchOptions {
        Objects.requireNonNull(engine);
        Objects.requireNonNull(tier);
        Objects.requireNonNull(samplingDefaults);
        Objects.requireNonNull(cluster);
        input = input.toAbsolutePath().normalize();
        output = output.toAbsolutePath().normalize();
        summary = summary.map(path -> path.toAbsolutePath().normalize());
        if (!Files.isRegularFile(input)) {
            throw new InvalidConfigException("--input", input, "is no file", "give a JSON Lines file of prompts");
        }
        checkCanBeWritten("--output", output);
        summary.ifPresent(path -> checkCanBeWritten("--summary", path));
        if (output.equals(input)) {
            throw new InvalidConfigException("--output", output, "is the input itself", "choose another file");
        }
        if (summary.isPresent() && (summary.get().equals(input) || summary.get().equals(output))) {
            throw new InvalidConfigException(
                    "--summary", summary.get(), "is the input or the output itself", "choose another file");
        }
    }

    /** Looked at before the work, not hours later: results take their place by renaming, which would replace a device. */
    private static void checkCanBeWritten(String option, Path file) {
        if (Files.isDirectory(file)) {
            throw new InvalidConfigException(option, file, "is a directory", "give the name of the file to write");
        }
        if (Files.exists(file) && !Files.isRegularFile(file)) {
            throw new InvalidConfigException(
                    option, file, "is a device or pipe, which would be replaced", "give the name of a file");
        }
        Path directory = file.getParent();
        while (directory != null && !Files.exists(directory)) {
            directory = directory.getParent();
        }
        if (directory == null || !Files.isDirectory(directory) || !Files.isWritable(directory)) {
            throw new InvalidConfigException(
                    option,
                    file,
                    "cannot be written: " + directory + " is no writable directory",
                    "choose another place");
        }
    }

    /** Where a batch keeps its state unless told otherwise: beside the output. */
    public static Path defaultStateDirectory(Path output) {
        Path absolute = output.toAbsolutePath().normalize();
        return absolute.resolveSibling(absolute.getFileName() + ".millrace");
    }

    /** Part files of results, until they are merged. */
    Path partsDirectory() {
        return cluster.stateDirectory().resolve("parts");
    }
}
