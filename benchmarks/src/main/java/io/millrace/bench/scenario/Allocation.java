package io.millrace.bench.scenario;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;

/** Bytes that all Java threads together have allocated. One thread. */
final class Allocation {
    private final ThreadMXBean threads;
    private final Map<Long, Long> before = new HashMap<>();

    Allocation() {
        threads = ManagementFactory.getThreadMXBean() instanceof ThreadMXBean bean
                        && bean.isThreadAllocatedMemorySupported()
                        && bean.isThreadAllocatedMemoryEnabled()
                ? bean
                : null;
    }

    void begin() {
        before.clear();
        if (threads != null) {
            long[] ids = threads.getAllThreadIds();
            long[] bytes = threads.getThreadAllocatedBytes(ids);
            for (int i = 0; i < ids.length; i++) {
                before.put(ids[i], bytes[i]);
            }
        }
    }

    /** Bytes since begin, over the threads that still live; NaN where this JVM does not count them. */
    double end() {
        if (threads == null) {
            return Double.NaN;
        }
        long[] ids = threads.getAllThreadIds();
        long[] bytes = threads.getThreadAllocatedBytes(ids);
        long total = 0;
        for (int i = 0; i < ids.length; i++) {
            if (bytes[i] >= 0) {
                total += bytes[i] - Math.max(0, before.getOrDefault(ids[i], 0L));
            }
        }
        return total;
    }
}
