package io.millrace.kvcache;

import java.util.Arrays;

/**
 * Finds blocks by content. A block's content is its token ids and all content before it; equal content gets one number,
 * the content id, so a match needs equal token ids and an equal parent's content id, and no hash collision can hand out
 * another text's KV. The chain starts at a salt, compared as text.
 */
final class PrefixIndex {
    /** Parent of the first block of a chain. */
    static final long ROOT = 0;

    private static final long ABSENT = 0;

    private final int blockSize;
    private final int[] tokenIds; // [numBlocks * blockSize]
    private final long[] hashes;
    private final long[] contentIds; // ABSENT for blocks that are not indexed
    private final long[] parentContentIds;
    private final String[] salts; // of chains' first blocks
    private final int[] bucketHeads;
    private final int[] nextInBucket;
    private long nextContentId = ROOT + 1;
    private int numEntries;

    PrefixIndex(int numBlocks, int blockSize) {
        this.blockSize = blockSize;
        tokenIds = new int[Math.multiplyExact(numBlocks, blockSize)];
        hashes = new long[numBlocks];
        contentIds = new long[numBlocks];
        parentContentIds = new long[numBlocks];
        salts = new String[numBlocks];
        bucketHeads = new int[Math.max(2, Integer.highestOneBit(numBlocks) * 4)];
        Arrays.fill(bucketHeads, BlockPool.NONE);
        nextInBucket = new int[numBlocks];
    }

    /** The block that holds these blockSize tokens after that parent, or NONE. */
    int find(long hash, long parentContentId, String salt, int[] ids, int from) {
        int block = bucketHeads[bucket(hash)];
        while (block != BlockPool.NONE && !matches(block, hash, parentContentId, salt, ids, from)) {
            block = nextInBucket[block];
        }
        return block;
    }

    /**
     * Makes a block findable and returns its content id. When another block has this content already the given one stays
     * unindexed and the other's content id is returned: tables are append-only, a duplicate is never swapped out.
     */
    long put(int block, long hash, long parentContentId, String salt, int[] ids, int from) {
        int twin = find(hash, parentContentId, salt, ids, from);
        if (twin != BlockPool.NONE) {
            return contentIds[twin];
        }
        System.arraycopy(ids, from, tokenIds, block * blockSize, blockSize);
        hashes[block] = hash;
        parentContentIds[block] = parentContentId;
        salts[block] = parentContentId == ROOT ? salt : null;
        contentIds[block] = nextContentId++;
        int bucket = bucket(hash);
        nextInBucket[block] = bucketHeads[bucket];
        bucketHeads[bucket] = block;
        numEntries++;
        return contentIds[block];
    }

    long contentId(int block) {
        return contentIds[block];
    }

    boolean contains(int block) {
        return contentIds[block] != ABSENT;
    }

    int numEntries() {
        return numEntries;
    }

    void remove(int block) {
        int bucket = bucket(hashes[block]);
        if (bucketHeads[bucket] == block) {
            bucketHeads[bucket] = nextInBucket[block];
        } else {
            int before = bucketHeads[bucket];
            while (nextInBucket[before] != block) {
                before = nextInBucket[before];
            }
            nextInBucket[before] = nextInBucket[block];
        }
        contentIds[block] = ABSENT;
        salts[block] = null;
        numEntries--;
    }

    private boolean matches(int block, long hash, long parentContentId, String salt, int[] ids, int from) {
        int first = block * blockSize;
        return hashes[block] == hash
                && parentContentIds[block] == parentContentId
                && (parentContentId != ROOT || salts[block].equals(salt))
                && Arrays.equals(tokenIds, first, first + blockSize, ids, from, from + blockSize);
    }

    private int bucket(long hash) {
        return (int) (hash >>> 17) & (bucketHeads.length - 1);
    }
}
