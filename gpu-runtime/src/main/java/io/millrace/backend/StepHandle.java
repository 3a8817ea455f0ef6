package io.millrace.backend;

/** A submitted step. Engine thread only; awaited exactly once, in order of submission. */
public interface StepHandle {
    /**
     * Waits for the step and returns what it drew.
     *
     * @throws SequenceFaultException if the fault is one sequence's: the step may be run again without it
     */
    StepOutput await();
}
