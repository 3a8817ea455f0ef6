package io.millrace.backend;

/** Opens backends of one kind of device; found by {@link java.util.ServiceLoader} and chosen by name (`--device`). */
public interface BackendProvider {
    /** The device kind, for example {@code cpu}. */
    String name();

    /**
     * Opens a model on this device. Backends of one process, model and dtype share the weights.
     *
     * @throws io.millrace.model.InvalidModelException if the model cannot be run, naming what is missing or wrong
     */
    Backend open(BackendConfig config);
}
