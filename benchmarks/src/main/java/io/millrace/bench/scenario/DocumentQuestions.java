package io.millrace.bench.scenario;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;

/**
 * Questions over documents, shuffled: prompts that begin with one of a few long texts and end with a short one of their own.
 * Of letters, of which byte-level tokenizers without merges make as many tokens as characters.
 *
 * @param lines of a prompt file
 * @param numPromptTokens of all prompts together
 */
record DocumentQuestions(List<String> lines, long numPromptTokens) {

    /** Makes questions; equal arguments make equal ones. */
    static DocumentQuestions of(
            int numDocuments,
            int documentCharacters,
            int numQuestions,
            int questionCharacters,
            int newTokens,
            long seed)
            throws IOException {
        Random random = new Random(seed);
        List<String> documents = new ArrayList<>();
        for (int i = 0; i < numDocuments; i++) {
            documents.add(text(random, documentCharacters));
        }
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < numQuestions; i++) {
            order.add(i % numDocuments);
        }
        Collections.shuffle(order, random);
        ObjectMapper json = new ObjectMapper();
        List<String> lines = new ArrayList<>();
        long numPromptTokens = 0;
        for (int i = 0; i < numQuestions; i++) {
            String prompt = documents.get(order.get(i)) + text(random, questionCharacters);
            numPromptTokens += prompt.length();
            ObjectNode line = json.createObjectNode();
            line.put("request_id", "question-" + i);
            line.put("prompt", prompt);
            line.putObject("sampling")
                    .put("max_tokens", newTokens)
                    .put("temperature", 0)
                    .put("ignore_eos", true);
            lines.add(json.writeValueAsString(line));
        }
        return new DocumentQuestions(List.copyOf(lines), numPromptTokens);
    }

    private static String text(Random random, int numCharacters) {
        StringBuilder text = new StringBuilder(numCharacters);
        for (int i = 0; i < numCharacters; i++) {
            text.append(i % 6 == 5 ? ' ' : (char) ('a' + random.nextInt(26)));
        }
        return text.toString();
    }

    void writeTo(Path file) throws IOException {
        Files.write(file, lines);
    }
}
