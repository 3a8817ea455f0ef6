package io.millrace.engine;

/** Takes what the engine thread reports. Called on the engine thread; may block, and so pauses the engine. */
public interface StepListener {
    /** A step that drew tokens, finished or failed something. */
    void onStep(StepReport report) throws InterruptedException;

    /** The engine thread died; nothing follows. */
    void onEngineDeath(Throwable cause);
}
