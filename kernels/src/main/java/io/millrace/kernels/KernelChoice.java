package io.millrace.kernels;

/**
 * The kernels for this process, chosen once: the Vector API ones where the JVM has the module and the CPU vectors of at
 * least 256 bits, else the scalar twin. Bits are the same either way.
 *
 * @param kernels to use
 * @param remark why the scalar twin was chosen and what to do about it; empty where the vector kernels run
 */
public record KernelChoice(Kernels kernels, String remark) {
    private static final KernelChoice BEST = choose();

    public static KernelChoice best() {
        return BEST;
    }

    private static KernelChoice choose() {
        if (ModuleLayer.boot().findModule("jdk.incubator.vector").isEmpty()) {
            return new KernelChoice(
                    new ScalarKernels(),
                    "the module jdk.incubator.vector is not loaded: attention runs many times slower;"
                            + " start java with --add-modules jdk.incubator.vector");
        }
        Kernels vector = VectorKernelsFactory.createOrNull();
        if (vector == null) {
            return new KernelChoice(
                    new ScalarKernels(),
                    "this CPU (or -XX:UseAVX) offers vectors of less than 256 bits: attention runs many times slower;"
                            + " use a CPU with AVX2 or AVX-512");
        }
        return new KernelChoice(vector, "");
    }
}
