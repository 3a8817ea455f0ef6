package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.sun.jna.Function;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Structure;
import org.junit.jupiter.api.Test;

class PackedPanelTest {
    private static final int SIZE = 16;
    private static final int NUM_WARM_UPS = 2000;
    private static final int NUM_TRIES = 5;
    private static final int NUM_FAILURES = 20000;
    private static final long MAX_BYTES_PER_FAILURE = 300; // what is described by then is 2,600

    /** What the C library has handed out (mallinfo2(3)). */
    @Structure.FieldOrder({
        "arena",
        "ordblks",
        "smblks",
        "hblks",
        "hblkhd",
        "usmblks",
        "fsmblks",
        "uordblks",
        "fordblks",
        "keepcost"
    })
    public static final class Allocations extends Structure implements Structure.ByValue {
        public long arena;
        public long ordblks;
        public long smblks;
        public long hblks;
        public long hblkhd;
        public long usmblks;
        public long fsmblks;
        public long uordblks;
        public long fordblks;
        public long keepcost;
    }

    @Test
    void whatFailsMidwayLeavesNoNativeMemoryBehind() {
        Function count = allocationsFunction();
        assumeTrue(count != null, "this C library does not count what it hands out");
        try (MatmulShape shape = new MatmulShape(SIZE, SIZE, NumberFormat.FLOAT32, ProductEnd.STORE, SIZE, true)) {
            fail(shape, NUM_WARM_UPS);
            long perFailure = Long.MAX_VALUE;
            for (int i = 0; i < NUM_TRIES; i++) { // compilers of this JVM take memory, too, but not all the time
                long before = bytesHandedOut(count);
                fail(shape, NUM_FAILURES);
                perFailure = Math.min(perFailure, (bytesHandedOut(count) - before) / NUM_FAILURES);
            }
            assertTrue(perFailure <= MAX_BYTES_PER_FAILURE, perFailure + " bytes stay behind every failure");
        }
    }

    /** The panel's and the bias's memory are described by the time that the missing rows are looked for. */
    private static void fail(MatmulShape shape, int numTimes) {
        float[] bias = new float[SIZE];
        for (int i = 0; i < numTimes; i++) {
            try (NativeArena arena = new NativeArena(1 << 12)) {
                assertThrows(NullPointerException.class, () -> new PackedPanel(shape, null, bias, arena, null));
            }
        }
    }

    private static Function allocationsFunction() {
        try {
            return NativeLibrary.getProcess().getFunction("mallinfo2");
        } catch (UnsatisfiedLinkError e) {
            return null;
        }
    }

    private static long bytesHandedOut(Function count) {
        Allocations allocations = (Allocations) count.invoke(Allocations.class, new Object[0]);
        return allocations.uordblks + allocations.hblkhd;
    }
}
