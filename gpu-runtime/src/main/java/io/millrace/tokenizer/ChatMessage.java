package io.millrace.tokenizer;

/** One message of a chat. */
public record ChatMessage(String role, String content) {}
