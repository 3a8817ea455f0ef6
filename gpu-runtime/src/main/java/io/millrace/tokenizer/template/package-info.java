/**
 * The Jinja dialect of Hugging Face chat templates, with Python's string, number and JSON behaviour. Written here, and
 * not taken from a template library, for one reason: the rendered text must say of each character whether the template
 * or a message wrote it, and only an interpreter whose strings carry that mark through every operator, filter and
 * method can. Values from outside are never parsed as template source, and templates reach no Java object. Knows
 * nothing of tokens or models.
 */
package io.millrace.tokenizer.template;
