package io.millrace.job.cluster;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;

/** How much memory this process has used at most. */
public final class ProcessMemory {

    private static final Path STATUS = Path.of("/proc/self/status");

    private ProcessMemory() {}

    /**
     * The largest resident set so far in bytes, as the kernel counts it; where there is no such count (not Linux), what the heap
     * and the JVM's own areas have committed.
     */
    public static long peakBytes() {
        if (Files.isReadable(STATUS)) {
            try {
                for (String line : Files.readAllLines(STATUS)) {
                    if (line.startsWith("VmHWM:")) {
                        return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
                    }
                }
            } catch (IOException notLinux) {
                return committedBytes();
            }
        }
        return committedBytes();
    }

    private static long committedBytes() {
        var memory = ManagementFactory.getMemoryMXBean();
        return memory.getHeapMemoryUsage().getCommitted()
                + memory.getNonHeapMemoryUsage().getCommitted();
    }
}
