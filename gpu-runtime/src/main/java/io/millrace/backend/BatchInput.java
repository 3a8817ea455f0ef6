package io.millrace.backend;

import java.util.List;

/**
 * One step's work, as plain ints: the tokens of all scheduled sequences laid end to end, and where their KV lies. The
 * seam between scheduling and devices is this whole step, sampling included, so that a device may fuse or record it.
 *
 * <p>Sequence s owns tokens queryStarts[s] … queryStarts[s+1]-1; its blockTables[s] lists the KV blocks of its positions
 * 0 … contextLengths[s]-1 in order (contextLengths counts this step's tokens too; extra trailing blocks may follow). Token
 * t's K and V are written to slot slotMapping[t] = block × blockSize + offset before attention reads them. Blocks that
 * several sequences list at the same place at their tables' front are shared; a backend should read them once for all
 * (bits must not change by it).
 *
 * <p>Before anything else KV of block copySources[i] is copied to copyDestinations[i] (copy-on-write), in order of i:
 * a block may be a source first and a destination later.
 *
 * <p>Arrays are owned by the runner and reused: a backend must not keep them past the step's await. Arrays may be longer
 * than the counts say.
 *
 * @param numTokens tokens in the step, at most maxNumBatchedTokens
 * @param tokenIds [numTokens]
 * @param positions [numTokens] absolute positions
 * @param slotMapping [numTokens]
 * @param numSequences sequences in the step
 * @param queryStarts [numSequences + 1]
 * @param contextLengths [numSequences]
 * @param blockTables [numSequences][blocks]
 * @param logitsRows rows whose logits are needed, ascending by token
 * @param numCopies block copies before the step
 * @param copySources [numCopies]
 * @param copyDestinations [numCopies]
 */
public record BatchInput(
        int numTokens,
        int[] tokenIds,
        int[] positions,
        int[] slotMapping,
        int numSequences,
        int[] queryStarts,
        int[] contextLengths,
        int[][] blockTables,
        List<LogitsRow> logitsRows,
        int numCopies,
        int[] copySources,
        int[] copyDestinations) {}
