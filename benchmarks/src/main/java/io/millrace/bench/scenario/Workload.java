package io.millrace.bench.scenario;

import io.millrace.engine.Request;
import io.millrace.sampling.SamplingParams;
import java.util.Random;

/**
 * Makes requests with distinct random prompts, temperature 1 and top_p 0.95 unless told otherwise, whose outputs run to their
 * full length. Ids never repeat. One thread.
 */
final class Workload {
    private static final int FIRST_PLAIN_ID = 3; // after the tokens that tokenizers begin with

    private final int vocabSize;
    private final Random random;
    private final float temperature;
    private final float topP;
    private long numRequests;

    Workload(int vocabSize, long seed) {
        this(vocabSize, seed, 1, 0.95f);
    }

    Workload(int vocabSize, long seed, float temperature, float topP) {
        this.vocabSize = vocabSize;
        this.random = new Random(seed);
        this.temperature = temperature;
        this.topP = topP;
    }

    int[] prompt(int numTokens) {
        return random.ints(numTokens, FIRST_PLAIN_ID, vocabSize).toArray();
    }

    /** A length from min to max, each as likely. */
    int length(int min, int max) {
        return min + random.nextInt(max - min + 1);
    }

    Request request(int numPromptTokens, int numNewTokens) {
        return request(prompt(numPromptTokens), numNewTokens, 1);
    }

    Request request(int[] prompt, int numNewTokens, int numSamples) {
        long number = numRequests++;
        SamplingParams sampling = SamplingParams.builder()
                .n(numSamples)
                .temperature(temperature)
                .topP(topP)
                .maxTokens(numNewTokens)
                .ignoreEos(true)
                .seed(number)
                .build();
        return new Request("bench-" + number, prompt, sampling);
    }
}
