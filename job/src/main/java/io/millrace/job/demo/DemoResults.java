package io.millrace.job.demo;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.job.demo.DemoPrompt.Kind;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What came out of the demo, held against what went in: who was answered how often, who failed why, and whether all of it adds
 * up. Built from the records of the output topics.
 */
final class DemoResults {

    private static final ObjectMapper JSON = new ObjectMapper();

    private final List<DemoPrompt> prompts;
    private final Map<String, TreeMap<Integer, String>> textsById = new TreeMap<>();
    private final Map<String, String> errorsById = new TreeMap<>();
    private final Map<String, Integer> numByCode = new TreeMap<>();
    private final List<String> defects = new ArrayList<>();
    private long numDeadLetters;

    /**
     * @param prompts what was sent
     * @param completions values of the completions topic
     * @param deadLetters values of the dead-letter topic
     */
    DemoResults(List<DemoPrompt> prompts, List<byte[]> completions, List<byte[]> deadLetters) {
        this.prompts = prompts;
        completions.stream().map(DemoResults::read).forEach(this::addCompletion);
        deadLetters.stream().map(DemoResults::read).forEach(this::addDeadLetter);
        prompts.forEach(this::check);
        if (numCompleted() + numDeadLetters != prompts.size()) {
            defects.add(prompts.size() + " records went in and " + numCompleted() + " completed + " + numDeadLetters
                    + " dead-lettered came out");
        }
    }

    private static JsonNode read(byte[] value) {
        try {
            return JSON.readTree(value);
        } catch (IOException e) {
            throw new UncheckedIOException("an output record is not JSON", e);
        }
    }

    private void addCompletion(JsonNode completion) {
        String id = completion.path("request_id").asText();
        int index = completion.path("index").asInt();
        String before = textsById
                .computeIfAbsent(id, unused -> new TreeMap<>())
                .put(index, completion.path("text").asText());
        if (before != null) {
            defects.add("request " + id + " index " + index + " came out twice");
        }
    }

    private void addDeadLetter(JsonNode letter) {
        numDeadLetters++;
        String code = letter.path("error").path("code").asText();
        numByCode.merge(code, 1, Integer::sum);
        String id = letter.path("request_id").asText();
        // A record whose id cannot be read is known by where it stood; its original bytes tell which it was.
        String original = letter.path("original").asText();
        String sent = prompts.stream()
                .filter(prompt -> prompt.json().equals(original))
                .map(DemoPrompt::requestId)
                .findFirst()
                .orElse(id);
        if (errorsById.put(
                        sent, code + ": " + letter.path("error").path("message").asText())
                != null) {
            defects.add("request " + sent + " has two dead letters");
        }
    }

    private void check(DemoPrompt prompt) {
        int numTexts = texts(prompt).size();
        boolean failed = errorsById.containsKey(prompt.requestId());
        if (prompt.kind() == Kind.BAD ? !failed || numTexts > 0 : failed || numTexts != prompt.numSamples()) {
            defects.add("request " + prompt.requestId() + ": " + numTexts + " of " + prompt.numSamples()
                    + " completions and " + (failed ? "a" : "no") + " dead letter");
        }
    }

    /** Everything that does not add up; empty when all is well. */
    List<String> defects() {
        return List.copyOf(defects);
    }

    /** Requests with all of their completions. */
    long numCompleted() {
        return prompts.stream()
                .filter(prompt -> prompt.numSamples() > 0 && texts(prompt).size() == prompt.numSamples())
                .count();
    }

    long numCompletions() {
        return textsById.values().stream().mapToLong(Map::size).sum();
    }

    long numDeadLetters() {
        return numDeadLetters;
    }

    Map<String, Integer> numByCode() {
        return Map.copyOf(numByCode);
    }

    /** The completions of a prompt, by index. */
    List<String> texts(DemoPrompt prompt) {
        return List.copyOf(
                textsById.getOrDefault(prompt.requestId(), new TreeMap<>()).values());
    }

    /** Why a prompt failed. */
    String error(DemoPrompt prompt) {
        return errorsById.getOrDefault(prompt.requestId(), "no dead letter");
    }

    /** Mean over the arithmetic prompts of the chance that one of k samples is right. */
    double passAt(int k) {
        return prompts.stream()
                .filter(prompt -> prompt.kind() == Kind.ARITHMETIC)
                .filter(prompt -> texts(prompt).size() >= k)
                .mapToDouble(prompt -> PassAtK.estimate(
                        texts(prompt).size(),
                        (int) texts(prompt).stream().filter(prompt::isRight).count(),
                        k))
                .average()
                .orElse(0);
    }

    /** Prompts of a kind whose first completion is right. */
    long numRight(Kind kind) {
        return prompts.stream()
                .filter(prompt -> prompt.kind() == kind)
                .filter(prompt -> texts(prompt).stream()
                        .findFirst()
                        .filter(prompt::isRight)
                        .isPresent())
                .count();
    }
}
