package io.millrace.job.demo;

import java.util.Optional;

/**
 * One record of the demo's input.
 *
 * @param requestId its request id, also the record's key
 * @param kind for the report
 * @param question what a person would read as the prompt
 * @param answer what the completion must say to be right; empty where any will do
 * @param numSamples completions expected; 0 for a record that must fail
 * @param json the record's bytes as text
 */
record DemoPrompt(String requestId, Kind kind, String question, Optional<String> answer, int numSamples, String json) {

    /** What is asked. */
    enum Kind {
        ARITHMETIC,
        WORD_PROBLEM,
        SENTIMENT,
        EXTRACTION,
        STORY,
        BAD;

        /** For the report. */
        String title() {
            return name().toLowerCase(java.util.Locale.ROOT).replace('_', ' ');
        }
    }

    /** Whether the text is a right answer: the number after {@code ####}, or the text itself. */
    boolean isRight(String text) {
        String given = text.strip();
        int mark = given.lastIndexOf("####");
        return answer.isPresent()
                && (mark < 0 ? given : given.substring(mark + 4).strip()).equals(answer.get());
    }
}
