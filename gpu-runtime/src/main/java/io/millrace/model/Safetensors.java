package io.millrace.model;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeMap;

/**
 * The tensors of a checkpoint in one safetensors file or in shards named by model.safetensors.index.json. Opening reads
 * and validates every header; data is memory-mapped at its first use. Immutable; any thread.
 */
public final class Safetensors {
    static final String SINGLE_FILE = "model.safetensors";
    static final String INDEX_FILE = "model.safetensors.index.json";

    private final String where;
    private final TreeMap<String, Tensor> tensors;

    private Safetensors(String where, TreeMap<String, Tensor> tensors) {
        this.where = where;
        this.tensors = tensors;
    }

    /**
     * Opens model.safetensors, or the shards of model.safetensors.index.json where there is no single file.
     *
     * @throws InvalidModelException naming the file, shard or tensor that cannot be used
     */
    public static Safetensors open(Path directory) {
        return open(directory, MappedFile.DEFAULT_WINDOW_BYTES);
    }

    /** Opens one safetensors file of any name. */
    public static Safetensors openFile(Path file) {
        return openFile(file, MappedFile.DEFAULT_WINDOW_BYTES);
    }

    static Safetensors open(Path directory, long windowBytes) {
        Path single = directory.resolve(SINGLE_FILE);
        if (Files.exists(single)) {
            return openFile(single, windowBytes);
        }
        Path index = directory.resolve(INDEX_FILE);
        if (Files.exists(index)) {
            return openShards(directory, index, windowBytes);
        }
        throw new InvalidModelException(directory + " has neither " + SINGLE_FILE + " nor " + INDEX_FILE
                + "; convert the weights to safetensors");
    }

    static Safetensors openFile(Path file, long windowBytes) {
        return new Safetensors(file.toString(), readFile(file, windowBytes));
    }

    private static TreeMap<String, Tensor> readFile(Path file, long windowBytes) {
        if (!Files.isRegularFile(file)) {
            throw new InvalidModelException(file + " does not exist or is no regular file");
        }
        try {
            MappedFile mapped = new MappedFile(file, windowBytes);
            TreeMap<String, Tensor> tensors = new TreeMap<>();
            for (SafetensorsHeader.Entry entry : SafetensorsHeader.read(file)) {
                long sizeBytes = entry.end() - entry.begin();
                tensors.put(
                        entry.name(),
                        new Tensor(entry.name(), entry.storageType(), entry.shape(), mapped, entry.begin(), sizeBytes));
            }
            return tensors;
        } catch (IOException e) {
            throw new InvalidModelException(file + " cannot be read: " + e, e);
        }
    }

    private static Safetensors openShards(Path directory, Path index, long windowBytes) {
        JsonNode weightMap = JsonFile.read(index).get("weight_map");
        if (!weightMap.isObject() || weightMap.isEmpty()) {
            throw new InvalidModelException(index + " lacks an object 'weight_map' of tensor names to shard files");
        }
        Map<String, TreeMap<String, Tensor>> shards = new HashMap<>();
        TreeMap<String, Tensor> tensors = new TreeMap<>();
        for (Map.Entry<String, JsonNode> field : weightMap.properties()) {
            String name = field.getKey();
            if (!field.getValue().isTextual()) {
                throw new InvalidModelException(
                        index + ": tensor '" + name + "' is mapped to " + field.getValue() + ", which is no file name");
            }
            String shardName = field.getValue().textValue();
            TreeMap<String, Tensor> shard = shards.get(shardName);
            if (shard == null) {
                shard = readFile(shardPath(directory, index, name, shardName), windowBytes);
                shards.put(shardName, shard);
            }
            Tensor tensor = shard.get(name);
            if (tensor == null) {
                throw new InvalidModelException(
                        index + " says that tensor '" + name + "' is in '" + shardName + "', which does not hold it");
            }
            tensors.put(name, tensor);
        }
        return new Safetensors(index.toString(), tensors);
    }

    /** An index comes with the weights from elsewhere, so it must not make us read files outside of the directory. */
    private static Path shardPath(Path directory, Path index, String tensorName, String shardName) {
        String problem = index + ": tensor '" + tensorName + "' is mapped to shard '" + shardName + "'";
        Path shard;
        try {
            shard = Path.of(shardName);
        } catch (InvalidPathException e) {
            throw new InvalidModelException(problem + ", which is no valid path", e);
        }
        Path resolved = directory.resolve(shard);
        if (shard.isAbsolute() || shard.normalize().startsWith("..")) {
            throw new InvalidModelException(problem + ", which is outside of the model directory " + directory);
        }
        if (!Files.exists(resolved)) {
            throw new InvalidModelException(problem + ", but " + resolved + " does not exist; fetch it");
        }
        try {
            Path real = resolved.toRealPath();
            if (!real.startsWith(directory.toRealPath()) && !isHubBlob(directory, real)) {
                throw new InvalidModelException(problem + ", a link to " + real
                        + ", which is outside of the model directory " + directory + "; copy the file into it");
            }
        } catch (IOException e) {
            throw new InvalidModelException(problem + ", which cannot be read: " + e, e);
        }
        return resolved;
    }

    /** The Hugging Face hub's cache keeps snapshots/REVISION/FILE as links to blobs/HASH beside snapshots. */
    private static boolean isHubBlob(Path directory, Path realShard) throws IOException {
        Path snapshots = directory.toRealPath().getParent();
        return snapshots != null
                && snapshots.endsWith("snapshots")
                && realShard.startsWith(snapshots.resolveSibling("blobs"));
    }

    /** All tensor names, sorted. */
    public SortedSet<String> names() {
        return Collections.unmodifiableSortedSet(tensors.navigableKeySet());
    }

    public boolean contains(String name) {
        return tensors.containsKey(name);
    }

    /** @throws InvalidModelException when there is no tensor of this name */
    public Tensor tensor(String name) {
        Tensor tensor = tensors.get(name);
        if (tensor == null) {
            throw new InvalidModelException(where + " lacks the tensor '" + name + "'");
        }
        return tensor;
    }
}
