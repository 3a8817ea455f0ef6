package io.millrace.job.cli;

/** A command that another module adds to {@code millrace}; found by {@link java.util.ServiceLoader}. */
public interface AddedCommand {

    /** A new object with picocli's {@code Command} annotation. Called once per command line, on its thread. */
    Object newCommand();
}
