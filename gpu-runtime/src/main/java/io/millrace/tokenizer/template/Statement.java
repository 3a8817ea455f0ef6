package io.millrace.tokenizer.template;

/** A parsed statement. Immutable; any thread. */
@FunctionalInterface
interface Statement {
    /** How a statement ended: go on, or leave or restart the innermost loop. */
    enum Flow {
        NEXT,
        BREAK,
        CONTINUE
    }

    /** Appends what the statement renders. */
    Flow execute(Scope scope, MarkedText.Builder out);
}
