package io.millrace.backend.cpu;

import io.millrace.backend.Dtype;
import io.millrace.backend.cpu.StepDriver.Part;
import io.millrace.backend.cpu.StepDriver.Seq;
import io.millrace.model.ModelDirectory;
import io.millrace.sampling.SamplingParams;
import io.millrace.sampling.TokenLogprobs;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;

/**
 * A program that prints a digest of all bits of a small workload, a line each time it runs it: logits of every token, KV, drawn
 * ids and log probabilities. Its JVM's options and threads must not show.
 */
final class BitDigest {
    private static final int TOKENS_PER_DECODE_STEP = 20; // of the prompt: a short one has fewer steps

    private BitDigest() {}

    /** @param arguments model directory, dtype, prompt tokens, compute threads, number of runs */
    public static void main(String[] arguments) throws NoSuchAlgorithmException {
        ModelDirectory model = ModelDirectory.open(Path.of(arguments[0]));
        Dtype dtype = Dtype.valueOf(arguments[1]);
        int promptTokens = Integer.parseInt(arguments[2]);
        int numThreads = Integer.parseInt(arguments[3]);
        for (int run = Integer.parseInt(arguments[4]); run > 0; run--) {
            System.out.println("digest " + run(model, dtype, promptTokens, numThreads));
        }
    }

    private static String run(ModelDirectory model, Dtype dtype, int promptTokens, int numThreads)
            throws NoSuchAlgorithmException {
        Random random = new Random(3);
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        try (StepDriver driver = new StepDriver(model, dtype, numThreads)) {
            int vocab = model.spec().vocabSize();
            Seq trunk = new Seq(random.ints(promptTokens, 0, vocab).toArray());
            driver.step(new Part(trunk, promptTokens - 4, 1));
            Seq fork = driver.fork(
                    trunk,
                    (promptTokens - 4) / 16 * 16,
                    random.ints(3, 0, vocab).toArray());
            Seq other = new Seq(random.ints(5, 0, vocab).toArray());
            driver.step(new Part(trunk, 4, 2), new Part(fork, 3, 1), new Part(other, 5, 1));
            List<Seq> sequences = List.of(trunk, fork, other);
            for (int i = 0; i < sequences.size(); i++) {
                sequences.get(i).params = sampling(i);
            }
            for (int step = 0; step < promptTokens / TOKENS_PER_DECODE_STEP; step++) {
                sequences.forEach(sequence -> sequence.append(random.nextInt(vocab)));
                int[] drawn = driver.step(
                        sequences.stream().map(s -> new Part(s, 1, 1)).toArray(Part[]::new));
                digest.update(Arrays.toString(drawn).getBytes(java.nio.charset.StandardCharsets.UTF_8));
                for (TokenLogprobs logprobs : driver.lastOutput().logprobs()) {
                    if (logprobs != null) {
                        update(digest, new float[] {logprobs.logprob()});
                        update(digest, logprobs.topLogprobs());
                    }
                }
            }
            for (Seq sequence : sequences) {
                sequence.logits.forEach(logits -> update(digest, logits));
                update(digest, driver.kvBits(sequence, model.spec()));
            }
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    private static SamplingParams sampling(int sequence) {
        return SamplingParams.builder()
                .temperature(sequence == 1 ? 0 : 0.7f + 0.3f * sequence)
                .topP(sequence == 0 ? 0.95f : 1)
                .topK(sequence == 2 ? 20 : 0)
                .maxTokens(1 << 20)
                .seed(sequence)
                .numLogprobs(3)
                .build();
    }

    private static void update(MessageDigest digest, float[] values) {
        int[] bits = new int[values.length];
        for (int i = 0; i < bits.length; i++) {
            bits[i] = Float.floatToRawIntBits(values[i]);
        }
        update(digest, bits);
    }

    private static void update(MessageDigest digest, int[] bits) {
        ByteBuffer bytes = ByteBuffer.allocate(4 * bits.length);
        bytes.asIntBuffer().put(bits);
        digest.update(bytes);
    }
}
