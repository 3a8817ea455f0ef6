package io.millrace.tokenizer.template;

/** A parsed expression. Immutable; any thread. */
@FunctionalInterface
interface Expression {
    Object evaluate(Scope scope);
}
