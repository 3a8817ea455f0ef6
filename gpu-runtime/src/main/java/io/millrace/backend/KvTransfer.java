package io.millrace.backend;

/**
 * Moves KV between a device's blocks and the host. Called by the engine thread between steps (no step is in flight), so a
 * block's KV is whole when it is exported, and there when the next step reads it. Runs of blocks are numbered in units of
 * {@link KvLayout}.
 */
public interface KvTransfer {

    KvLayout layout();

    /**
     * Writes units firstUnit … firstUnit+numUnits-1 of a run of blocks.
     *
     * @param blocks [numBlocks] the run, in order of positions
     * @param destination receives numUnits × unitBytes(format) bytes from offset on
     */
    void exportKv(
            int[] blocks, int numBlocks, KvFormat format, int firstUnit, int numUnits, byte[] destination, int offset);

    /** Reads back what {@link #exportKv} wrote: bit for bit if the format is lossless, else the numbers nearest to it. */
    void importKv(int[] blocks, int numBlocks, KvFormat format, int firstUnit, int numUnits, byte[] source, int offset);

    /**
     * Gives blocks the numbers that an export and import would leave: with a lossy format recomputed and loaded blocks are
     * made equal by it. Nothing to do if the format is lossless.
     */
    void requantize(int[] blocks, int numBlocks, KvFormat format);
}
