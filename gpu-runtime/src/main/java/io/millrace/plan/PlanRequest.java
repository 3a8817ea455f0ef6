package io.millrace.plan;

import java.util.List;
import java.util.Objects;

/**
 * Everything a plan follows from. Immutable, validated once; messages name the options of {@code millrace plan}.
 *
 * @param shape of the model
 * @param device it runs on
 * @param precision of weights and KV
 * @param kvCache memory for KV and where the figure is from
 * @param contextTokens C: tokens that a sequence holds on average while it decodes
 * @param blockSize tokens of a KV block
 * @param maxModelLen tokens that an engine without paging would reserve for each sequence
 * @param batchSizes to list; empty takes 1, 8, 64 and so on up to what fits
 * @param promptTokens of the prompt in the prefill, sharing and tier questions
 * @param numSamples n: samples of one prompt
 * @param outputTokens of each such sample
 * @param preemptedTokens of a sequence that is preempted
 * @param tpotLimitSeconds most time per output token
 * @param diskBytesPerSecond read rate of the prefix tier's disk
 * @param speculation draft cost and acceptance
 * @param numDraftTokens the γ to list
 * @param remarks what the reader must know about the inputs; may be empty
 */
public record PlanRequest(
        ModelShape shape,
        DeviceSpec device,
        Precision precision,
        KvMemory kvCache,
        int contextTokens,
        int blockSize,
        int maxModelLen,
        List<Integer> batchSizes,
        int promptTokens,
        int numSamples,
        int outputTokens,
        int preemptedTokens,
        double tpotLimitSeconds,
        double diskBytesPerSecond,
        SpeculationCost speculation,
        List<Integer> numDraftTokens,
        List<String> remarks) {

    public static final int DEFAULT_CONTEXT_TOKENS = 2048;
    public static final List<Integer> DEFAULT_NUM_DRAFT_TOKENS = List.of(1, 2, 3, 4, 5, 6, 8);
    private static final int MAX_BATCH_SIZE = 1_000_000;
    private static final int MAX_DRAFT_TOKENS = 64;

    public PlanRequest {
        Objects.requireNonNull(shape);
        Objects.requireNonNull(device);
        Objects.requireNonNull(precision);
        Objects.requireNonNull(kvCache);
        Objects.requireNonNull(speculation);
        batchSizes = batchSizes.stream().sorted().distinct().toList();
        numDraftTokens = numDraftTokens.stream().sorted().distinct().toList();
        remarks = List.copyOf(remarks);
        requireWithin("--max-model-len", maxModelLen, shape.maxPositionEmbeddings(), shape.name() + " takes");
        requireWithin("--context", contextTokens, maxModelLen, "--max-model-len or the model allows");
        requireWithin("--prompt", promptTokens, maxModelLen, "--max-model-len or the model allows");
        requireWithin("--preempted", preemptedTokens, maxModelLen, "--max-model-len or the model allows");
        InvalidPlanException.requireAtLeast("--block-size", blockSize, 1, "use 16");
        InvalidPlanException.requireAtLeast("--samples", numSamples, 1, "try 8");
        InvalidPlanException.requireAtLeast("--output", outputTokens, 0, "try 256");
        if ((long) promptTokens + outputTokens > maxModelLen) {
            throw new InvalidPlanException(
                    "--output",
                    outputTokens,
                    "with --prompt = " + promptTokens + " makes more than the " + maxModelLen
                            + " tokens that --max-model-len or the model allows",
                    "use at most " + (maxModelLen - promptTokens) + " or a shorter prompt");
        }
        for (int batchSize : batchSizes) {
            requireWithin("--batch-sizes", batchSize, MAX_BATCH_SIZE, "is planned:");
        }
        for (int gamma : numDraftTokens) {
            requireWithin("--draft-tokens", gamma, MAX_DRAFT_TOKENS, "is planned:");
        }
        InvalidPlanException.requirePositive("--tpot", tpotLimitSeconds, "try 50ms");
        InvalidPlanException.requirePositive("--disk-bandwidth", diskBytesPerSecond, "try 2g (bytes/s)");
    }

    private static void requireWithin(String option, int value, int max, String whoseLimit) {
        if (value < 1 || value > max) {
            throw new InvalidPlanException(
                    option, value, "must lie in [1, " + max + "]", whoseLimit + " at most " + max + "; choose within");
        }
    }

    /**
     * Memory for keys and values.
     *
     * @param bytes of it
     * @param source why it is that much, for the reader of the plan
     */
    public record KvMemory(long bytes, String source) {
        public KvMemory {
            InvalidPlanException.requireAtLeast("--kv-cache-memory-bytes", bytes, 1, "try 1g");
            Objects.requireNonNull(source);
        }

        /**
         * Checks a size that was asked for against the device.
         *
         * @throws InvalidPlanException if weights and KV together do not fit
         */
        public static KvMemory given(long bytes, String source, double weightBytes, DeviceSpec device) {
            KvMemory memory = new KvMemory(bytes, source);
            if (weightBytes + bytes > device.memoryBytes()) {
                throw new InvalidPlanException(
                        "--kv-cache-memory-bytes",
                        bytes,
                        "with weights of " + Quantities.bytes(weightBytes) + " exceeds the "
                                + Quantities.bytes(device.memoryBytes()) + " of " + device.name(),
                        remedy());
            }
            return memory;
        }

        /**
         * What a share of the device's memory leaves beside the weights.
         *
         * @throws InvalidPlanException if it leaves nothing
         */
        public static KvMemory remainder(double utilization, double weightBytes, DeviceSpec device) {
            if (!(utilization > 0 && utilization <= 1)) {
                throw new InvalidPlanException(
                        "--gpu-memory-utilization", utilization, "must lie in (0, 1]", "try 0.9");
            }
            double usable = device.memoryBytes() * utilization;
            if (usable - weightBytes < 1) {
                throw new InvalidPlanException(
                        "--device",
                        device.name(),
                        "weights of " + Quantities.bytes(weightBytes) + " leave nothing for KV of "
                                + Quantities.bytes(usable) + " (" + utilization + " of its memory)",
                        remedy());
            }
            return new KvMemory(
                    (long) (usable - weightBytes),
                    utilization + " of the device's " + Quantities.bytes(device.memoryBytes())
                            + " less W; the rest is for activations");
        }

        private static String remedy() {
            return "use more devices (--tensor-parallel-size), narrower weights (--bytes-per-parameter),"
                    + " a smaller model or another --device-memory";
        }
    }
}
