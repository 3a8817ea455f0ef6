package io.millrace.backend;

import io.millrace.model.ModelDirectory;
import java.nio.file.Path;

/** Opens backends of one kind of device; found by {@link java.util.ServiceLoader} and chosen by name (`--device`). */
public interface BackendProvider {
    /** The device kind, for example {@code cpu}. */
    String name();

    /** Opens a model directory for this device. */
    default ModelDirectory openModel(Path directory) {
        return ModelDirectory.open(directory);
    }

    /**
     * Opens a model on this device. Backends of one process, model and dtype share the weights.
     *
     * @throws io.millrace.model.InvalidModelException if the model cannot be run, naming what is missing or wrong
     */
    Backend open(BackendConfig config);
}
