package io.millrace.tokenizer.template;

/** What a template can call: a function, a macro, a bound method. */
@FunctionalInterface
interface Callable {
    Object call(Arguments arguments);
}
