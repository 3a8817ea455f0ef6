package io.millrace.bench.scenario;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.millrace.engine.Request;
import io.millrace.sampling.SamplingParams;
import io.millrace.tokenizer.Tokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** The same text prompts for both sides: as the lines of a prompt file, and as requests that are still to be tokenised. */
final class ServedRequests {
    private static final float TEMPERATURE = 1;
    private static final float TOP_P = 0.95f;

    private final List<Line> lines = new ArrayList<>();

    private record Line(String id, String prompt, int maxTokens, long seed) {}

    /** Prompts of random letters, of which byte-level tokenizers without merges make as many tokens as characters. */
    ServedRequests(String prefix, int count, int promptCharacters, int minTokens, int maxTokens, long seed) {
        Random random = new Random(seed);
        for (int i = 0; i < count; i++) {
            StringBuilder prompt = new StringBuilder();
            for (int c = 0; c < promptCharacters; c++) {
                prompt.append(c % 6 == 5 ? ' ' : (char) ('a' + random.nextInt(26)));
            }
            int length = minTokens + random.nextInt(maxTokens - minTokens + 1);
            lines.add(new Line(prefix + "-" + i, prompt.toString(), length, random.nextLong() >>> 1));
        }
    }

    int count() {
        return lines.size();
    }

    String id(int index) {
        return lines.get(index).id();
    }

    void writeTo(Path file) throws IOException {
        ObjectMapper json = new ObjectMapper();
        List<String> texts = new ArrayList<>();
        for (Line line : lines) {
            ObjectNode root = json.createObjectNode();
            root.put("request_id", line.id());
            root.put("prompt", line.prompt());
            root.putObject("sampling")
                    .put("max_tokens", line.maxTokens())
                    .put("temperature", TEMPERATURE)
                    .put("top_p", TOP_P)
                    .put("seed", line.seed())
                    .put("ignore_eos", true);
            texts.add(json.writeValueAsString(root));
        }
        Files.write(file, texts);
    }

    /** Tokenises one prompt. */
    Request request(int index, Tokenizer tokenizer) {
        Line line = lines.get(index);
        SamplingParams sampling = SamplingParams.builder()
                .maxTokens(line.maxTokens())
                .temperature(TEMPERATURE)
                .topP(TOP_P)
                .seed(line.seed())
                .ignoreEos(true)
                .build();
        return new Request(line.id(), tokenizer.encode(line.prompt(), true, false), sampling);
    }
}
