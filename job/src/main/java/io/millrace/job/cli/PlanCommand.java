package io.millrace.job.cli;

import io.millrace.backend.cpu.CpuDeviceProbe;
import io.millrace.engine.EngineConfig;
import io.millrace.plan.ConfigShape;
import io.millrace.plan.InvalidPlanException;
import io.millrace.plan.ModelCost;
import io.millrace.plan.ModelShape;
import io.millrace.plan.NamedShapes;
import io.millrace.plan.Plan;
import io.millrace.plan.PlanJson;
import io.millrace.plan.PlanRequest;
import io.millrace.plan.PlanRequest.KvMemory;
import io.millrace.plan.PlanTable;
import io.millrace.plan.SpeculationCost;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.Supplier;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code millrace plan}. */
@Command(
        name = "plan",
        sortOptions = false,
        synopsisHeading = "Usage: ",
        customSynopsis = "millrace plan --model DIR|SHAPE [--device NAME] [--context TOKENS] [options]",
        description = {
            "Answers what a model needs and reaches on a device before it is rented: memory, step times, capacity.",
            "",
            "Pure arithmetic (the roofline) over the model's sizes and the device's rates: lower bounds with the data"
                    + " sheet's rates, estimates with measured ones. Every figure names what it assumes."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  ./millrace plan --model llama-3-8b --device h100 --kv-cache-memory-bytes 50g",
            "  ./millrace plan --model models/millrace-tiny --device this --context 512 --json plan.json",
            "",
            "Suffixes k, m, g, t are powers of 1000. docs/planner.md explains every row.",
            "Exit codes: 0 done, 1 failed, 2 wrong command line."
        })
final class PlanCommand implements Callable<Integer> {
    private static final double DEFAULT_UTILIZATION = 0.9;
    private static final int DEFAULT_OUTPUT_TOKENS = 256;

    @Option(
            names = "--model",
            required = true,
            paramLabel = "DIR|SHAPE",
            description = "Model directory, its config.json (weights are not needed), or one of smollm2-135m,"
                    + " qwen2.5-0.5b, llama-3.2-1b, llama-3-8b, llama-3-70b, llama-2-7b.")
    String model;

    @Option(
            names = "--context",
            paramLabel = "TOKENS",
            description = "Tokens that a sequence holds while it decodes. Default: "
                    + PlanRequest.DEFAULT_CONTEXT_TOKENS + ", or the model's limit where that is less.")
    Integer contextTokens;

    @Option(
            names = "--batch-sizes",
            paramLabel = "N",
            split = ",",
            description = "Batch sizes to list, comma-separated. Default: 1, 8, 64 and so on up to what fits.")
    List<Integer> batchSizes = List.of();

    @Option(
            names = "--prompt",
            paramLabel = "TOKENS",
            description = "Prompt length for prefill, sharing and the tier. Default: --context.")
    Integer promptTokens;

    @Option(
            names = "--samples",
            paramLabel = "N",
            defaultValue = "8",
            description = "Samples that share one prompt. Default: ${DEFAULT-VALUE}.")
    int numSamples;

    @Option(
            names = "--output",
            paramLabel = "TOKENS",
            description = "Output tokens of each such sample. Default: 256, or what the model's limit leaves.")
    Integer outputTokens;

    @Option(
            names = "--preempted",
            paramLabel = "TOKENS",
            description = "Length of a sequence that is preempted. Default: --context.")
    Integer preemptedTokens;

    @Option(
            names = "--max-model-len",
            paramLabel = "TOKENS",
            description = "Longest sequence, what contiguous reservation sets aside. Default: the model's limit.")
    Integer maxModelLen;

    @Option(
            names = "--tpot",
            paramLabel = "TIME",
            defaultValue = "50ms",
            converter = DurationConverter.class,
            description = "Most time per output token, for the largest batch within it. Default: ${DEFAULT-VALUE}.")
    Duration tpot;

    @Option(
            names = "--kv-cache-memory-bytes",
            paramLabel = "SIZE",
            converter = ByteSizeConverter.class,
            description =
                    "Memory for keys and values. Default: what --gpu-memory-utilization leaves beside the weights;"
                            + " for this, the engine's default of 1Gi.")
    Long kvCacheMemoryBytes;

    @Option(
            names = "--gpu-memory-utilization",
            paramLabel = "SHARE",
            description = "Share of a named device's memory for weights and KV. Default: " + DEFAULT_UTILIZATION + ".")
    Double utilization;

    @Option(
            names = "--block-size",
            paramLabel = "TOKENS",
            defaultValue = "" + EngineConfig.DEFAULT_BLOCK_SIZE,
            description = "Tokens of one KV block. Default: ${DEFAULT-VALUE}.")
    int blockSize;

    @Option(
            names = "--disk-bandwidth",
            paramLabel = "RATE",
            defaultValue = "2g",
            converter = RateConverter.class,
            description = "Bytes a second that the prefix tier's disk reads. Default: ${DEFAULT-VALUE}.")
    double diskBandwidth;

    @Option(
            names = "--draft-cost",
            paramLabel = "C",
            defaultValue = "0.15",
            description =
                    "Time of a draft step over a step of the model; 0 for prompt lookup. Default: ${DEFAULT-VALUE}.")
    double draftCost;

    @Option(
            names = "--acceptance-rate",
            paramLabel = "A",
            defaultValue = "0.8",
            description = "Chance that a drafted token is accepted. Default: ${DEFAULT-VALUE}.")
    double acceptanceRate;

    @Option(
            names = "--draft-tokens",
            paramLabel = "N",
            split = ",",
            description = "Numbers of drafted tokens to list, comma-separated. Default: 1,2,3,4,5,6,8.")
    List<Integer> numDraftTokens = PlanRequest.DEFAULT_NUM_DRAFT_TOKENS;

    @ArgGroup(validate = false, heading = "%nDevice:%n")
    PlanDeviceOptions device = new PlanDeviceOptions();

    @Option(
            names = "--json",
            paramLabel = "FILE|-",
            description = "Write the plan as JSON too; - writes it to standard output instead of the table.")
    String json;

    @Mixin
    HelpOption help;

    @Spec
    CommandSpec spec;

    private final Supplier<CpuDeviceProbe.Rates> probe;

    PlanCommand() {
        this(CpuDeviceProbe::measure);
    }

    /** @param probe measures for {@code --device this} */
    PlanCommand(Supplier<CpuDeviceProbe.Rates> probe) {
        this.probe = probe;
    }

    @Override
    public Integer call() {
        Plan plan;
        try {
            plan = Plan.of(toRequest());
        } catch (InvalidPlanException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
        PrintWriter out = spec.commandLine().getOut();
        if ("-".equals(json)) {
            out.print(PlanJson.toText(plan));
        } else {
            out.print(PlanTable.toText(plan));
            if (json != null) {
                write(Path.of(json), PlanJson.toText(plan));
            }
        }
        out.flush();
        return 0;
    }

    private static void write(Path file, String text) {
        try {
            Files.writeString(file, text);
        } catch (IOException e) {
            throw new UncheckedIOException(
                    "option --json = " + file + ": cannot be written (" + e
                            + "); name a file in a directory that exists",
                    e);
        }
    }

    private PlanRequest toRequest() {
        List<String> remarks = new ArrayList<>();
        ModelShape shape = readShape(remarks);
        SpeculationCost speculation = new SpeculationCost(draftCost, acceptanceRate);
        int limit = maxModelLen == null ? shape.maxPositionEmbeddings() : maxModelLen;
        int context = contextTokens == null ? Math.min(PlanRequest.DEFAULT_CONTEXT_TOKENS, limit) : contextTokens;
        int prompt = promptTokens == null ? context : promptTokens;
        int output = outputTokens == null ? Math.max(0, Math.min(DEFAULT_OUTPUT_TOKENS, limit - prompt)) : outputTokens;
        PlanDeviceOptions.Target target = device.resolve(probe);
        double weightBytes = ModelCost.of(shape, target.precision()).weightBytes();
        return new PlanRequest(
                shape,
                target.device(),
                target.precision(),
                kvMemory(weightBytes, target),
                context,
                blockSize,
                limit,
                batchSizes,
                prompt,
                numSamples,
                output,
                preemptedTokens == null ? context : preemptedTokens,
                tpot.toNanos() * 1e-9,
                diskBandwidth,
                speculation,
                numDraftTokens,
                remarks);
    }

    private ModelShape readShape(List<String> remarks) {
        Optional<ModelShape> named = NamedShapes.find(model);
        if (named.isPresent()) {
            return named.get();
        }
        Path path = Path.of(model);
        if (!Files.exists(path)) {
            throw new InvalidPlanException(
                    "--model",
                    model,
                    "is neither a path nor a known shape",
                    "give a model directory, a config.json or one of " + String.join(", ", NamedShapes.names())
                            + PlanDeviceOptions.nearest(model, NamedShapes.names()));
        }
        ModelShape shape = ConfigShape.read(path);
        ConfigShape.remark(path).ifPresent(remarks::add);
        return shape;
    }

    private KvMemory kvMemory(double weightBytes, PlanDeviceOptions.Target target) {
        if (kvCacheMemoryBytes != null && utilization != null) {
            throw new InvalidPlanException(
                    "--gpu-memory-utilization",
                    utilization,
                    "contradicts --kv-cache-memory-bytes, which says how much memory KV gets",
                    "leave one of them out");
        }
        if (kvCacheMemoryBytes != null) {
            return KvMemory.given(kvCacheMemoryBytes, "given (--kv-cache-memory-bytes)", weightBytes, target.device());
        }
        if (target.measured() && utilization == null) {
            return KvMemory.given(
                    EngineConfig.DEFAULT_KV_CACHE_MEMORY_BYTES,
                    "the engine's default (--kv-cache-memory-bytes)",
                    weightBytes,
                    target.device());
        }
        return KvMemory.remainder(
                utilization == null ? DEFAULT_UTILIZATION : utilization, weightBytes, target.device());
    }
}
