package io.millrace.job;

import io.millrace.backend.Dtype;
import io.millrace.backend.fake.FakeModel;
import io.millrace.engine.EngineConfig;
import io.millrace.sampling.LogprobsMode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Prompts and engine settings for jobs on the fake backend, whose steps can be made as slow as a test needs. */
public final class FakeJobs {

    private static final int MAX_POSITIONS = 512;

    private FakeJobs() {}

    /** An engine of a few sequences over a model without weights or tokenizer. */
    public static EngineConfig engine(Path modelDirectory) {
        FakeModel.write(modelDirectory, MAX_POSITIONS);
        return new EngineConfig(
                modelDirectory.toString(),
                "fake",
                Dtype.AUTO,
                0,
                16,
                512,
                1 << 20,
                true,
                16,
                1,
                LogprobsMode.RAW_LOGPROBS);
    }

    /** Lines of prompts by token id; every third asks for two samples. */
    public static List<String> promptLines(int count, long seed) {
        Random random = new Random(seed);
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            List<Integer> ids =
                    random.ints(5 + random.nextInt(40), 3, 600).boxed().toList();
            lines.add(
                    "{\"request_id\": \"r%d\", \"prompt_token_ids\": %s, \"sampling\": {\"n\": %d, \"max_tokens\": %d}}"
                            .formatted(i, ids, i % 3 == 0 ? 2 : 1, 40 + random.nextInt(60)));
        }
        return lines;
    }

    /** Writes lines to a file. */
    public static Path write(Path file, List<String> lines) throws IOException {
        return Files.write(file, lines);
    }

    /** Makes every step of engines opened from now on in this JVM take so long. */
    public static void stepMillis(int millis) {
        System.setProperty("millrace.fake.stepMillis", Integer.toString(millis));
    }
}
