package io.millrace.plan;

import java.util.List;

/** The worked example of these tests: Llama-3-8B in bf16 on an H100 with 50 GB for KV. */
final class Llama3OnH100 {
    static final ModelShape SHAPE = NamedShapes.find("llama-3-8b").orElseThrow();
    static final DeviceSpec DEVICE = DeviceSpec.find("h100").orElseThrow();
    static final ModelCost COST = ModelCost.of(SHAPE, Precision.BFLOAT16);
    static final Roofline ROOFLINE = new Roofline(COST, DEVICE.rates());
    static final long KV_BYTES = 50_000_000_000L;
    static final KvCapacity CAPACITY = new KvCapacity(KV_BYTES, COST.kvBytesPerToken(), 16);

    private Llama3OnH100() {}

    static PlanRequest request() {
        return request(2048, List.of());
    }

    static PlanRequest request(int contextTokens, List<Integer> batchSizes) {
        return new PlanRequest(
                SHAPE,
                DEVICE,
                Precision.BFLOAT16,
                PlanRequest.KvMemory.given(KV_BYTES, "given (--kv-cache-memory-bytes)", COST.weightBytes(), DEVICE),
                contextTokens,
                16,
                8192,
                batchSizes,
                contextTokens,
                8,
                256,
                1500,
                0.05,
                2e9,
                new SpeculationCost(0.15, 0.8),
                PlanRequest.DEFAULT_NUM_DRAFT_TOKENS,
                List.of());
    }
}
