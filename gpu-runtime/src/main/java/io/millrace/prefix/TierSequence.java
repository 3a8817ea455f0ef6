package io.millrace.prefix;

import io.millrace.sequence.Sequence;
import java.util.BitSet;
import java.util.List;

/** A sequence as the tier sees it: its chunks, which of them are worth storing, and what is being loaded for it. */
final class TierSequence {
    final Sequence sequence;
    final long affinityKey;
    /** Keys of the whole chunks so far; generated tokens add to them. */
    final List<ChunkKey> keys;
    /** Chunks there were at arrival; whether to store them was decided then. */
    final int numChunksAtArrival;
    /** Of these, the ones that are worth storing. */
    final BitSet wanted = new BitSet();

    /** Chunks whose KV was complete, and which were offered to the exports if worth it. */
    int numOffered;

    /** What is being looked for and loaded; null if nothing is. */
    PrefixLoad load;

    /** When the load began, or the sequence was given blocks for it, whichever is later. */
    long waitingSince;

    /** Where the sequence was when it was given blocks. */
    int firstPosition;

    int numLoaded; // tokens, since it was given blocks
    int numComputedBeside; // of the stored prefix, since it was given blocks
    boolean restoring; // preempted, and not yet back where it was

    /** Steps that were cut short for it before it had blocks: only a few, as nobody knows when it will have them. */
    int numShortStepsBeforeAdmission;

    // The plan of the current step.
    boolean planned;
    int stepEnd;
    int firstWantedChunk;

    TierSequence(Sequence sequence, long affinityKey, List<ChunkKey> keys) {
        this.sequence = sequence;
        this.affinityKey = affinityKey;
        this.keys = keys;
        numChunksAtArrival = keys.size();
    }

    /** The chunk that the next token to compute lies in. */
    int pointerChunk(int chunkTokens) {
        return sequence.numComputedTokens() / chunkTokens;
    }

    /** Whether something may still come for it: then others are served first. */
    boolean isLoading() {
        return load != null && !load.isOver();
    }
}
