package io.millrace.tokenizer.template;

/** A name or attribute that does not exist: prints as nothing, is false, and any other use is an error. */
record Undefined(String description) {
    TemplateException fault() {
        return new TemplateException(description);
    }
}
