package io.millrace.sequence;

/** Where a sequence is in its life. */
public enum SequenceStatus {
    /** Holds no blocks: not begun, or preempted and to be recomputed. */
    WAITING,
    /** Takes a sibling's prompt blocks by reference when the current step has ended. */
    FORKING,
    /** Holds the blocks of all its tokens. */
    RUNNING,
    /** Ended; holds nothing. */
    FINISHED
}
