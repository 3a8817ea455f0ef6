package io.millrace.kernels;

/** Keeps every mention of the Vector API's classes out of reach until the module is known to be there. */
final class VectorKernelsFactory {

    private VectorKernelsFactory() {}

    static Kernels createOrNull() {
        return VectorRows.isWideEnough() ? new VectorKernels() : null;
    }

    static PanelKernels createPanelKernels() {
        return new VectorPanelKernels();
    }
}
