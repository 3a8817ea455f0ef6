package io.millrace.job.cli;

/** What the launcher tells about where it runs. */
final class Console {

    private Console() {}

    /** Whether standard error is a terminal, where lines can be rewritten. */
    static boolean isTerminal() {
        return Boolean.getBoolean("millrace.terminal");
    }

    /** Directory for logs, demo files and the state of streams. */
    static java.nio.file.Path home() {
        return java.nio.file.Path.of(System.getProperty("millrace.home", ".millrace"))
                .toAbsolutePath()
                .normalize();
    }

    /** The project's root, where the demo model is. */
    static java.nio.file.Path root() {
        return java.nio.file.Path.of(System.getProperty("millrace.root", "."))
                .toAbsolutePath()
                .normalize();
    }
}
