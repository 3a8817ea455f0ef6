package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.millrace.sampling.SamplingParams;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Samples of one request that find room at different times. */
class SiblingAdmissionTest {
    @Test
    void aSampleThatFinishesThePromptForksItsWaitingSiblingsOnce() {
        EngineConfig config = EngineHarness.config(10, 512, true, 16);
        try (EngineHarness harness = new EngineHarness(config, 64)) {
            harness.submit(request("first", 9, 2, 20));
            harness.step(); // draws the first token of all nine
            harness.submit(request("second", 4, 5, 40));
            harness.step(); // one sample of the second finds a place, the first ends and leaves nine
            harness.runToEnd(100);
            assertEquals(4, harness.ledger.get("second").samples.size());
        }
    }

    private static Request request(String id, int n, int maxTokens, int numPromptTokens) {
        SamplingParams sampling = SamplingParams.builder()
                .n(n)
                .maxTokens(maxTokens)
                .ignoreEos(true)
                .build();
        return new Request(id, IntStream.range(10, 10 + numPromptTokens).toArray(), sampling);
    }
}
