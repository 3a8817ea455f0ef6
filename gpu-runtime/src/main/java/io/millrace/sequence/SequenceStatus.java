package io.millrace.sequence;

/** Where a sequence is in its life. */
public enum SequenceStatus {
    /** Holds no blocks: not begun, or preempted and to be recomputed. */
    WAITING,
    /** Holds the blocks of all its tokens. */
    RUNNING,
    /** Ended; holds nothing. */
    FINISHED
}
