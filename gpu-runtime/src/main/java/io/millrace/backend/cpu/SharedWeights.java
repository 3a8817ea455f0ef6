package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import io.millrace.model.InvalidModelException;
import io.millrace.model.ModelDirectory;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** The packed weights of this process: backends of the same model directory and number format hold the same ones. */
final class SharedWeights {
    private static final Map<Key, Entry> ENTRIES = new HashMap<>();

    private SharedWeights() {}

    private record Key(Path realPath, NumberFormat format) {}

    private static final class Entry {
        private final DecoderWeights weights;
        private int numHolders;

        private Entry(DecoderWeights weights) {
            this.weights = weights;
        }
    }

    /** Takes a hold, loading the weights if nobody has them. Each hold is given back by {@link #release}. */
    static synchronized DecoderWeights acquire(
            ModelDirectory model, NumberFormat format, Kernels kernels, ComputeThreads threads) {
        Key key = new Key(realPath(model), format);
        Entry entry = ENTRIES.get(key);
        if (entry == null) {
            entry = new Entry(DecoderWeights.load(model, format, kernels, threads));
            ENTRIES.put(key, entry);
        }
        entry.numHolders++;
        return entry.weights;
    }

    static synchronized void release(DecoderWeights weights) {
        ENTRIES.values().removeIf(entry -> {
            if (entry.weights != weights || --entry.numHolders > 0) {
                return false;
            }
            weights.close();
            return true;
        });
    }

    /** Number of distinct weights held, for tests. */
    static synchronized int size() {
        return ENTRIES.size();
    }

    private static Path realPath(ModelDirectory model) {
        try {
            return model.path().toRealPath();
        } catch (IOException e) {
            throw new InvalidModelException(model.path() + " cannot be resolved: " + e.getMessage(), e);
        }
    }
}
