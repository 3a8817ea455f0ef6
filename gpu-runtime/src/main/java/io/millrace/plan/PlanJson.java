package io.millrace.plan;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Locale;
import java.util.OptionalDouble;
import java.util.OptionalLong;

/**
 * A plan as JSON. Keys carry their units and keep their meaning while {@link #FORMAT_VERSION} stays; what never happens
 * (a GEMM that never is compute-bound) is null.
 */
public final class PlanJson {
    public static final int FORMAT_VERSION = 1;

    private static final ObjectMapper MAPPER =
            JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    private final Plan plan;

    private PlanJson(Plan plan) {
        this.plan = plan;
    }

    /** Indented text, ends with a newline. */
    public static String toText(Plan plan) {
        try {
            return MAPPER.writeValueAsString(toNode(plan)) + "\n";
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a tree of numbers and texts cannot be written as JSON", e);
        }
    }

    public static ObjectNode toNode(Plan plan) {
        return new PlanJson(plan).root();
    }

    private ObjectNode root() {
        ObjectNode root = NODES.objectNode();
        root.put("format_version", FORMAT_VERSION);
        root.set("assumptions", assumptions());
        root.set("memory", memory());
        root.set("decode", decode());
        root.set("prefill", prefill());
        root.set("sharing", sharing());
        root.set("preemption", preemption());
        root.set("tier", tier());
        root.set("speculation", speculation());
        return root;
    }

    private ObjectNode assumptions() {
        PlanRequest request = plan.request();
        ModelShape shape = request.shape();
        DeviceSpec device = request.device();
        ObjectNode node = NODES.objectNode();
        node.put("model", shape.name());
        node.put("num_parameters", shape.numParameters());
        node.put("num_layers", shape.numLayers());
        node.put("hidden_size", shape.hiddenSize());
        node.put("num_query_heads", shape.numQueryHeads());
        node.put("num_kv_heads", shape.numKvHeads());
        node.put("head_dim", shape.headDim());
        node.put("intermediate_size", shape.intermediateSize());
        node.put("vocab_size", shape.vocabSize());
        node.put("bytes_per_parameter", request.precision().bytesPerParameter());
        node.put("bytes_per_kv_value", request.precision().bytesPerKvValue());
        node.put("device", device.name());
        node.put("device_source", device.source());
        node.put("device_memory_bytes", device.memoryBytes());
        node.put("memory_bytes_per_second", device.rates().memoryBytesPerSecond());
        node.put("gemm_flops_per_second", device.rates().gemmFlopsPerSecond());
        node.put("attention_flops_per_second", device.rates().attentionFlopsPerSecond());
        node.put("link_bytes_per_second", device.linkBytesPerSecond());
        node.put("disk_bytes_per_second", request.diskBytesPerSecond());
        node.put("context_tokens", request.contextTokens());
        node.put("max_model_len", request.maxModelLen());
        ArrayNode remarks = node.putArray("remarks");
        request.remarks().forEach(remarks::add);
        return node;
    }

    private ObjectNode memory() {
        ObjectNode node = NODES.objectNode();
        node.put("weight_bytes", plan.cost().weightBytes());
        node.put("kv_bytes_per_token", plan.cost().kvBytesPerToken());
        node.put("kv_cache_bytes", plan.request().kvCache().bytes());
        node.put("kv_cache_source", plan.request().kvCache().source());
        node.put("block_size", plan.request().blockSize());
        node.put("num_tokens", plan.capacity().numTokens());
        node.put("num_blocks", plan.capacity().numBlocks());
        node.put("max_sequences", plan.maxSequences());
        node.put("reserved_sequences", plan.reservedSequences());
        return node;
    }

    private ObjectNode decode() {
        ObjectNode node = NODES.objectNode();
        ArrayNode points = node.putArray("batches");
        for (Plan.DecodePoint point : plan.decode()) {
            ObjectNode entry = points.addObject();
            entry.put("batch_size", point.batchSize());
            entry.put("fits", point.fits());
            entry.put("kv_bytes", point.kvBytes());
            entry.put("memory_seconds", point.memorySeconds());
            entry.put("compute_seconds", point.computeSeconds());
            entry.put("step_seconds", point.stepSeconds());
            entry.put("tokens_per_second", point.tokensPerSecond());
            entry.put("bound", point.computeBound() ? "compute" : "memory");
            entry.put("free_chunk_tokens", point.freeChunkTokens());
        }
        put(node, "compute_bound_batch_size", plan.computeBoundBatch());
        ArrayNode gemms = node.putArray("gemms");
        for (Plan.GemmThreshold threshold : plan.gemmThresholds()) {
            ObjectNode entry = gemms.addObject();
            entry.put("layers", threshold.gemm().layers());
            entry.put("num_inputs", threshold.gemm().numInputs());
            entry.put("num_outputs", threshold.gemm().numOutputs());
            put(entry, "compute_bound_rows", threshold.rows());
        }
        ObjectNode tpot = node.putObject("tpot");
        tpot.put("limit_seconds", plan.tpot().limitSeconds());
        tpot.put("batch_size_by_time", plan.tpot().batchSizeByTime());
        tpot.put("batch_size", plan.tpot().batchSize());
        tpot.put("tokens_per_second", plan.tpot().tokensPerSecond());
        return node;
    }

    private ObjectNode prefill() {
        Plan.Prefill prefill = plan.prefill();
        ObjectNode node = NODES.objectNode();
        node.put("prompt_tokens", prefill.promptTokens());
        node.put("gemm_seconds", prefill.gemmSeconds());
        node.put("attention_seconds", prefill.attentionSeconds());
        node.put("seconds", prefill.seconds());
        node.put("kv_bytes", prefill.kvBytes());
        node.put("kv_transfer_seconds", prefill.transferSeconds());
        return node;
    }

    private ObjectNode sharing() {
        Plan.Sharing sharing = plan.sharing();
        ObjectNode node = NODES.objectNode();
        node.put("num_samples", sharing.numSamples());
        node.put("prompt_tokens", plan.request().promptTokens());
        node.put("output_tokens", plan.request().outputTokens());
        node.put("prefill_tokens", sharing.prefillTokens());
        node.put("prefill_tokens_unshared", sharing.prefillTokensUnshared());
        node.put("prefill_seconds_saved", sharing.prefillSecondsSaved());
        node.put("kv_bytes", sharing.kvBytes());
        node.put("kv_bytes_unshared", sharing.kvBytesUnshared());
        node.put("step_seconds", sharing.stepSeconds());
        node.put("step_seconds_unshared", sharing.stepSecondsUnshared());
        node.put("num_groups", sharing.numGroups());
        node.put("num_groups_unshared", sharing.numGroupsUnshared());
        return node;
    }

    private ObjectNode preemption() {
        Plan.Preemption preemption = plan.preemption();
        ObjectNode node = NODES.objectNode();
        node.put("num_tokens", preemption.numTokens());
        node.put("swap_seconds_one_way", preemption.swapSecondsOneWay());
        node.put("recompute_gemm_seconds", preemption.recomputeGemmSeconds());
        node.put("recompute_seconds", preemption.recomputeSeconds());
        node.put("cheaper", preemption.cheaper().name().toLowerCase(Locale.ROOT));
        return node;
    }

    private ObjectNode tier() {
        Plan.Tier tier = plan.tier();
        ObjectNode node = NODES.objectNode();
        node.put("num_tokens", tier.numTokens());
        node.put("load_seconds", tier.loadSeconds());
        node.put("compute_seconds", tier.computeSeconds());
        node.put("both_seconds", tier.bothSeconds());
        node.put("computed_tokens_of_both", tier.computedTokensOfBoth());
        put(node, "crossover_tokens", tier.crossoverTokens());
        node.put("always_load_bytes_per_second", tier.alwaysLoadBytesPerSecond());
        return node;
    }

    private ObjectNode speculation() {
        ObjectNode node = NODES.objectNode();
        node.put("draft_cost", plan.request().speculation().draftCost());
        node.put("acceptance_rate", plan.request().speculation().acceptanceRate());
        ArrayNode points = node.putArray("points");
        for (Plan.SpeculationPoint point : plan.speculation()) {
            ObjectNode entry = points.addObject();
            entry.put("num_draft_tokens", point.numDraftTokens());
            entry.put("tokens_per_pass", point.tokensPerPass());
            entry.put("speedup", point.speedup());
            ArrayNode byBatch = entry.putArray("speedup_by_batch");
            point.speedupsByBatch().forEach(byBatch::add);
        }
        ArrayNode best = node.putArray("best_num_draft_tokens_by_batch");
        for (int i = 0; i < plan.decode().size(); i++) {
            best.add(plan.bestNumDraftTokens(i));
        }
        return node;
    }

    private static void put(ObjectNode node, String key, OptionalLong value) {
        if (value.isPresent()) {
            node.put(key, value.getAsLong());
        } else {
            node.putNull(key);
        }
    }

    private static void put(ObjectNode node, String key, OptionalDouble value) {
        if (value.isPresent()) {
            node.put(key, value.getAsDouble());
        } else {
            node.putNull(key);
        }
    }
}
