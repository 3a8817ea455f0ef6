package io.millrace.operators.inference;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Token-id prompts as JSON lines. Ids stay below the fake device's hooks. */
final class TestPrompts {
    private TestPrompts() {}

    static List<String> random(long seed, int numPrompts, int maxPromptTokens, int maxTokens) {
        Random random = new Random(seed);
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < numPrompts; i++) {
            int[] ids = new int[1 + random.nextInt(maxPromptTokens)];
            for (int k = 0; k < ids.length; k++) {
                ids[k] = 3 + random.nextInt(600);
            }
            lines.add(line(
                    "r" + i,
                    ids,
                    "\"n\":" + (1 + random.nextInt(3)) + ",\"max_tokens\":" + (1 + random.nextInt(maxTokens))
                            + ",\"logprobs\":" + random.nextInt(3)));
        }
        return lines;
    }

    static String line(String requestId, int[] ids, String sampling) {
        StringBuilder text = new StringBuilder("{\"request_id\":\"" + requestId + "\",\"prompt_token_ids\":[");
        for (int k = 0; k < ids.length; k++) {
            text.append(k == 0 ? "" : ",").append(ids[k]);
        }
        return text.append("],\"sampling\":{").append(sampling).append("}}").toString();
    }

    static Path write(Path directory, List<String> lines) throws IOException {
        Files.createDirectories(directory);
        return Files.write(directory.resolve("prompts.jsonl"), lines);
    }
}
