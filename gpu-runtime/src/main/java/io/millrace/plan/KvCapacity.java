package io.millrace.plan;

/**
 * What a KV pool of one size holds.
 *
 * @param poolBytes memory for keys and values
 * @param kvBytesPerToken k
 * @param blockSize tokens of a block
 */
public record KvCapacity(long poolBytes, double kvBytesPerToken, int blockSize) {

    public KvCapacity {
        InvalidPlanException.requireAtLeast("--kv-cache-memory-bytes", poolBytes, 1, "try 1g");
        InvalidPlanException.requireAtLeast("--block-size", blockSize, 1, "use 16");
        if (!(kvBytesPerToken > 0)) {
            throw new IllegalArgumentException("KV bytes per token = " + kvBytesPerToken + ": must be positive");
        }
    }

    public long numTokens() {
        return (long) Math.floor(poolBytes / kvBytesPerToken);
    }

    public long numBlocks() {
        return numTokens() / blockSize;
    }

    /** Sequences of that many tokens each, in whole blocks. */
    public long numSequences(long tokensPerSequence) {
        return numBlocks() / numBlocksOf(tokensPerSequence);
    }

    /** Sequences if each reserves room for the longest at its start, one piece, as engines without paging do. */
    public long numReservedSequences(long maxTokensPerSequence) {
        return numTokens() / maxTokensPerSequence;
    }

    /** Groups of numSamples samples that hold their prompt's full blocks once. */
    public long numGroups(long promptTokens, long outputTokens, int numSamples) {
        return numBlocks() / numGroupBlocks(promptTokens, outputTokens, numSamples);
    }

    /** Blocks of one such group: the prompt's full blocks, and per sample those from the first that differs. */
    public long numGroupBlocks(long promptTokens, long outputTokens, int numSamples) {
        long sharedBlocks = promptTokens / blockSize;
        long ownBlocks = numBlocksOf(promptTokens + outputTokens) - sharedBlocks;
        return sharedBlocks + numSamples * ownBlocks;
    }

    public long numBlocksOf(long numTokens) {
        return Math.max(1, (numTokens + blockSize - 1) / blockSize);
    }
}
