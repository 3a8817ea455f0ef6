package io.millrace.job.demo;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.millrace.job.demo.DemoPrompt.Kind;
import io.millrace.tokenizer.ChatMessage;
import io.millrace.tokenizer.Tokenizer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;

/**
 * The demo's input: questions of all kinds as chats, as rendered text and as token ids, and a handful of records that are wrong in
 * different ways, in an order mixed by the seed.
 */
final class DemoPrompts {

    static final int NUM_ARITHMETIC_SAMPLES = 8;
    /** High enough that the demo model errs now and then, so that eight samples show more than one. */
    private static final double ARITHMETIC_TEMPERATURE = 1.5;

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<Kind, Integer> NUM_BY_KIND = new EnumMap<>(Map.of(
            Kind.ARITHMETIC, 60, Kind.WORD_PROBLEM, 60, Kind.SENTIMENT, 70, Kind.EXTRACTION, 60, Kind.STORY, 60));

    private final Tokenizer tokenizer;
    private final int contextTokens;
    private final List<DemoPrompt> prompts = new ArrayList<>();

    private DemoPrompts(Tokenizer tokenizer, int contextTokens) {
        this.tokenizer = tokenizer;
        this.contextTokens = contextTokens;
    }

    /**
     * Makes the prompts.
     *
     * @param tokenizer the demo model's
     * @param contextTokens the demo model's longest sequence; one bad prompt exceeds it
     */
    static List<DemoPrompt> make(Tokenizer tokenizer, int contextTokens, long seed) {
        DemoPrompts made = new DemoPrompts(tokenizer, contextTokens);
        DemoQuestions questions = new DemoQuestions(seed);
        NUM_BY_KIND.forEach((kind, count) -> {
            for (int i = 0; i < count; i++) {
                made.addQuestion(kind, i, questions.next(kind));
            }
        });
        made.addBad();
        Collections.shuffle(made.prompts, new Random(seed));
        return List.copyOf(made.prompts);
    }

    private void addQuestion(Kind kind, int number, DemoQuestions.Question question) {
        String id = kind.title().replace(' ', '-') + "-" + number;
        ObjectNode record = JSON.createObjectNode().put("request_id", id);
        List<ChatMessage> chat = List.of(new ChatMessage("user", question.text()));
        switch (number % 4) {
            case 2 ->
                record.put("prompt", rendered(question.text()))
                        .put("add_special_tokens", false)
                        .put("parse_special_tokens", true);
            case 3 -> {
                var ids = record.putArray("prompt_token_ids");
                for (int tokenId : tokenizer.encodeChat(chat)) {
                    ids.add(tokenId);
                }
            }
            default ->
                record.putArray("messages").addObject().put("role", "user").put("content", question.text());
        }
        boolean arithmetic = kind == Kind.ARITHMETIC;
        ObjectNode sampling = record.putObject("sampling").put("max_tokens", 96);
        if (arithmetic) {
            sampling.put("n", NUM_ARITHMETIC_SAMPLES).put("temperature", ARITHMETIC_TEMPERATURE);
        } else {
            sampling.put("temperature", kind == Kind.STORY ? 1.0 : 0.0);
        }
        if (question.answer() != null) {
            record.put("ground_truth", question.answer());
        }
        prompts.add(new DemoPrompt(
                id,
                kind,
                question.text(),
                Optional.ofNullable(question.answer()),
                arithmetic ? NUM_ARITHMETIC_SAMPLES : 1,
                write(record)));
    }

    private void addBad() {
        bad("bad-json", "JSON that is cut off", "{\"request_id\": \"bad-json\", \"prompt\": \"cut");
        bad(
                "bad-field",
                "a field that no prompt has",
                write(JSON.createObjectNode()
                        .put("request_id", "bad-field")
                        .put("prompt", "hello")
                        .put("temprature", 1)));
        ObjectNode both = JSON.createObjectNode().put("request_id", "bad-both").put("prompt", "hello");
        both.putArray("messages").addObject().put("role", "user").put("content", "hello");
        bad("bad-both", "prompt and messages at once", write(both));
        ObjectNode vocabulary = JSON.createObjectNode().put("request_id", "bad-token");
        vocabulary.putArray("prompt_token_ids").add(1).add(1_000_000);
        bad("bad-token", "a token id outside the vocabulary", write(vocabulary));
        bad(
                "bad-length",
                "a prompt longer than the context",
                write(JSON.createObjectNode()
                        .put("request_id", "bad-length")
                        .put("prompt", "hello ".repeat(contextTokens))));
        ObjectNode sampling =
                JSON.createObjectNode().put("request_id", "bad-sampling").put("prompt", "hello");
        sampling.putObject("sampling").put("top_p", 7);
        bad("bad-sampling", "a sampling setting outside its limits", write(sampling));
    }

    private void bad(String id, String what, String json) {
        prompts.add(new DemoPrompt(id, Kind.BAD, what, Optional.empty(), 0, json));
    }

    /** The chat as the model's template would write it, to show prompts that are rendered before they are sent. */
    private static String rendered(String question) {
        return "<|im_start|>user\n" + question + "<|im_end|>\n<|im_start|>assistant\n";
    }

    private static String write(ObjectNode record) {
        try {
            return JSON.writeValueAsString(record);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a tree of plain values always writes", e);
        }
    }
}
