package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class CpuDeviceProbeTest {

    @Test
    void measuresRatesOfAPlausibleMachineAndLeavesNoThread() {
        CpuDeviceProbe.Rates rates = CpuDeviceProbe.measure();

        assertEquals(Runtime.getRuntime().availableProcessors(), rates.numThreads());
        assertTrue(rates.bufferBytes() >= 512L << 20, rates::toString);
        assertTrue(rates.readBytesPerSecond() > 1e9 && rates.readBytesPerSecond() < 1e13, rates::toString);
        assertTrue(rates.copyBytesPerSecond() > 0.2e9, rates::toString);
        assertTrue(rates.copyBytesPerSecond() < 1.5 * rates.readBytesPerSecond(), rates::toString);
        assertTrue(rates.float32FlopsPerSecond() > 1e9 && rates.float32FlopsPerSecond() < 1e15, rates::toString);
        rates.bfloat16FlopsPerSecond().ifPresent(bfloat16 -> assertTrue(bfloat16 > 1e9, rates::toString));
        assertTrue(rates.memoryBytes() > rates.bufferBytes(), rates::toString);
        assertTrue(
                Thread.getAllStackTraces().keySet().stream()
                        .noneMatch(thread -> thread.getName().endsWith("-probe") && thread.isAlive()),
                "a thread of the probe is still alive");
    }
}
