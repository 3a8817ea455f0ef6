package io.millrace.job;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** The command line in a process of its own, which a test may kill. */
public final class ChildJvm implements AutoCloseable {

    private static final long TIMEOUT_NANOS = TimeUnit.MINUTES.toNanos(3);

    private final Process process;
    private final Path output;

    private ChildJvm(Process process, Path output) {
        this.process = process;
        this.output = output;
    }

    /**
     * Starts {@code millrace} on this test's class path, which has the fake backend.
     *
     * @param directory for its log and what it prints
     * @param stepMillis length of the fake backend's steps
     */
    public static ChildJvm start(Path directory, int stepMillis, List<String> arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(
                Arrays.asList(System.getProperty("millrace.jvm.args").strip().split("\\s+")));
        command.addAll(List.of(
                "-Xmx1g",
                "-XX:TieredStopAtLevel=1",
                "-Dlog4j2.configurationFile=millrace-log4j2.xml",
                "-Dmillrace.log.file=" + directory.resolve("child.log"),
                "-Dmillrace.home=" + directory.resolve("home"),
                "-Dmillrace.fake.stepMillis=" + stepMillis,
                "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                "io.millrace.job.Millrace"));
        command.addAll(arguments);
        Path output = Files.createTempFile(directory, "child", ".out");
        Process process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        return new ChildJvm(process, output);
    }

    /** Waits for the condition; fails with what the child printed if it ends before. */
    public void awaitWhileAlive(String what, BooleanSupplier condition) throws Exception {
        long deadline = System.nanoTime() + TIMEOUT_NANOS;
        while (!condition.getAsBoolean()) {
            if (!process.isAlive() || System.nanoTime() > deadline) {
                throw new AssertionError((process.isAlive() ? "timeout" : "the child ended with " + process.exitValue())
                        + " while waiting for " + what + ":\n" + printed());
            }
            Thread.sleep(5);
        }
    }

    /** kill -9. */
    public void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    /** SIGTERM. */
    public void terminate() {
        process.destroy();
    }

    /** Waits for the end; the exit code. */
    public int await() throws Exception {
        if (!process.waitFor(TIMEOUT_NANOS, TimeUnit.NANOSECONDS)) {
            process.destroyForcibly();
            throw new AssertionError("the child did not end:\n" + printed());
        }
        return process.exitValue();
    }

    public boolean isAlive() {
        return process.isAlive();
    }

    public String printed() {
        try {
            return Files.readString(output);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
