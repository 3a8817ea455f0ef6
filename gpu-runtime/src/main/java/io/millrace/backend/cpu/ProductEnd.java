package io.millrace.backend.cpu;

/** What the matrix library does with the elements of a product while it has them in registers; after adding the bias, if any. */
enum ProductEnd {
    /** Stores them as float32. */
    STORE,

    /** Adds them to the float32 numbers that stand there. */
    ADD,

    /** Stores silu(element) × the float32 number at its place in the thread's tile, in the format of the operands. */
    GATE
}
