package io.millrace.backend;

/**
 * Executes whole steps of one model on one device, and owns the KV memory of one engine. Methods are called by the engine
 * thread only, except close, which may be called by any thread once the engine thread has ended.
 *
 * <p>Contract: a token's logits, its KV bytes and the drawn id depend only on the sequence's own tokens and settings,
 * never on the batch (docs/determinism.md).
 */
public interface Backend extends AutoCloseable {

    /** Starts a step. The input's arrays stay untouched by the caller until the handle was awaited. */
    StepHandle submit(BatchInput input);

    /** Number of KV blocks the configured KV memory holds. */
    int numBlocks();

    /** KV bytes of one block over all layers. */
    long bytesPerBlock();

    /** KV blocks that attention reads as one tile, and reads faster where their numbers follow each other; 1: no matter. */
    default int blocksPerRun() {
        return 1;
    }

    /** KV bytes that attention has read so far, blocks read once for several sequences counted once; -1 if uncounted. */
    default long numKvBytesRead() {
        return -1;
    }

    /** Moves KV out and in; null where the device cannot: then it takes no prefix store. */
    default KvTransfer kvTransfer() {
        return null;
    }

    /** Names everything that may change bits: device kind, instruction set, library and kernel version, dtype. */
    String numericFingerprint();

    /** Frees KV memory and this engine's hold on shared weights. Idempotent. */
    @Override
    void close();
}
