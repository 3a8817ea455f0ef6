/**
 * Text to token ids and back: encoding with user text kept apart from control tokens, chats through the model's own
 * template, incremental decoding of one sample's output, and stop texts. Owns the native tokenizer and the files
 * tokenizer.json, tokenizer_config.json and chat_template.jinja of a model directory. Knows nothing of model weights,
 * scheduling or sampling.
 */
package io.millrace.tokenizer;
