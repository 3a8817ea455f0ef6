package io.millrace.bench.model;

import io.millrace.plan.ConfigShape;
import io.millrace.plan.ModelShape;
import io.millrace.plan.NamedShapes;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * A model to measure.
 *
 * @param directory in Hugging Face format
 * @param shape its sizes
 * @param isRandom whether its weights were made up for the purpose
 */
public record BenchModel(Path directory, ModelShape shape, boolean isRandom) {
    private static final long SEED = 1;

    /**
     * Finds a model, and writes random weights for it where it has none.
     *
     * @param model a model directory, a named shape, or a config.json (or a directory that holds nothing else)
     * @param cache where random weights are kept for the next time
     * @throws io.millrace.model.InvalidModelException if it is none of these
     */
    public static BenchModel resolve(String model, Path cache) {
        Path path = Path.of(model);
        if (NamedShapes.find(model).isEmpty() && Files.isDirectory(path) && hasWeights(path)) {
            return new BenchModel(path.toAbsolutePath().normalize(), ConfigShape.read(path), false);
        }
        return random(shape(model), cache);
    }

    /** The shape of that name, or of a config.json. */
    public static ModelShape shape(String model) {
        return NamedShapes.find(model).orElseGet(() -> ConfigShape.read(Path.of(model)));
    }

    /** Random weights of a shape, from the cache or made now. */
    public static BenchModel random(ModelShape shape, Path cache) {
        String name = shape.name().replaceAll("[^A-Za-z0-9._-]", "_");
        Path directory = cache.resolve(name + "-" + Integer.toHexString(shape.hashCode()))
                .toAbsolutePath()
                .normalize();
        if (!Files.exists(directory.resolve("config.json"))) {
            try {
                writeWhole(shape, directory);
            } catch (IOException e) {
                throw new UncheckedIOException(
                        "random weights of " + shape.name() + " could not be written to " + directory + ": " + e
                                + "; make room there, or set MILLRACE_HOME to another directory",
                        e);
            }
        }
        return new BenchModel(directory, shape, true);
    }

    /** A directory is there whole or not at all, also when two runs make it at once. */
    private static void writeWhole(ModelShape shape, Path directory) throws IOException {
        Files.createDirectories(directory.getParent());
        Path unfinished = Files.createTempDirectory(directory.getParent(), "unfinished-");
        ModelExport.write(shape, unfinished, SEED);
        if (Files.exists(directory)) {
            deleteRecursively(directory);
        }
        Files.move(unfinished, directory, StandardCopyOption.ATOMIC_MOVE);
    }

    private static void deleteRecursively(Path directory) throws IOException {
        List<Path> paths;
        try (Stream<Path> walk = Files.walk(directory)) {
            paths = walk.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path path : paths) {
            Files.deleteIfExists(path);
        }
    }

    private static boolean hasWeights(Path directory) {
        try (Stream<Path> files = Files.list(directory)) {
            return files.anyMatch(file -> file.toString().endsWith(".safetensors"));
        } catch (IOException e) {
            throw new UncheckedIOException(directory + " cannot be read: " + e, e);
        }
    }
}
