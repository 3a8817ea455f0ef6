package io.millrace.plan;

import java.util.List;
import java.util.Locale;

/** A plan as text for people, {@value #WIDTH} columns wide: every figure with its unit and what it assumes. */
public final class PlanTable {
    static final int WIDTH = 100;
    private static final int LABEL_WIDTH = 36;
    private static final int VALUE_WIDTH = 16;

    private final Plan plan;
    private final PlanRequest request;
    private final StringBuilder text = new StringBuilder();

    private PlanTable(Plan plan) {
        this.plan = plan;
        this.request = plan.request();
    }

    /** Lines of at most {@value #WIDTH} characters; ends with a newline. */
    public static String toText(Plan plan) {
        return new PlanTable(plan).render();
    }

    private String render() {
        assumptions();
        memory();
        decode();
        prefill();
        sharing();
        preemption();
        tier();
        speculation();
        return text.toString();
    }

    private void assumptions() {
        ModelShape shape = request.shape();
        DeviceSpec device = request.device();
        DeviceRates rates = device.rates();
        title("Assumptions");
        row(
                "model",
                shape.name(),
                String.format(
                        Locale.ROOT,
                        "%d layers, hidden %d, %d query / %d KV heads of %d, MLP %d, vocabulary %d%s",
                        shape.numLayers(),
                        shape.hiddenSize(),
                        shape.numQueryHeads(),
                        shape.numKvHeads(),
                        shape.headDim(),
                        shape.intermediateSize(),
                        shape.vocabSize(),
                        shape.tiedEmbeddings() ? ", tied" : ""));
        row("device", device.name(), device.source());
        row("BW, memory bandwidth", Quantities.bytesPerSecond(rates.memoryBytesPerSecond()), "reads of weights and KV");
        row("P, GEMM rate", Quantities.flopsPerSecond(rates.gemmFlopsPerSecond()), "linear layers, 2 FLOP a parameter");
        row("attention rate", Quantities.flopsPerSecond(rates.attentionFlopsPerSecond()), "scores and weighted sums");
        row("link to host memory", Quantities.bytesPerSecond(device.linkBytesPerSecond()), "each way");
        row("tier's disk", Quantities.bytesPerSecond(request.diskBytesPerSecond()), "reads (--disk-bandwidth)");
        row("C, context", Quantities.count(request.contextTokens()) + " tokens", "per sequence while it decodes");
        for (String remark : request.remarks()) {
            row("note", "", remark);
        }
    }

    private void memory() {
        ModelShape shape = request.shape();
        title("Memory");
        row(
                "W, weights",
                Quantities.bytes(plan.cost().weightBytes()),
                Quantities.count(shape.numParameters()) + " parameters of "
                        + Quantities.plain(request.precision().bytesPerParameter()) + " bytes");
        row(
                "k, KV of a token",
                Quantities.plain(plan.cost().kvBytesPerToken()) + " B",
                "K and V x " + shape.numLayers() + " layers x " + shape.numKvHeads() + " heads x " + shape.headDim()
                        + " x " + Quantities.plain(request.precision().bytesPerKvValue()) + " bytes");
        row(
                "memory for KV",
                Quantities.bytes(request.kvCache().bytes()),
                request.kvCache().source());
        row("tokens that fit", Quantities.count(plan.capacity().numTokens()), "memory for KV / k");
        row("blocks that fit", Quantities.count(plan.capacity().numBlocks()), request.blockSize() + " tokens a block");
        row(
                "B_max, sequences that fit",
                Quantities.count(plan.maxSequences()),
                "at " + Quantities.count(request.contextTokens()) + " tokens each, in whole blocks");
        row(
                "with contiguous reservation",
                Quantities.count(plan.reservedSequences()),
                Quantities.count(request.maxModelLen()) + " tokens set aside for each (--max-model-len)");
    }

    private void decode() {
        title("Decode: step time t = max(memory: (W + B C k) / BW, compute: GEMMs / P + attention)");
        line(
                "  %8s %11s %11s %11s %11s %12s %8s %11s",
                "B", "KV", "memory", "compute", "step t", "tokens/s", "bound", "free chunk");
        for (Plan.DecodePoint point : plan.decode()) {
            line(
                    "  %8s %11s %11s %11s %11s %12s %8s %11s%s",
                    Quantities.count(point.batchSize()),
                    Quantities.bytes(point.kvBytes()),
                    Quantities.milliseconds(point.memorySeconds()),
                    Quantities.milliseconds(point.computeSeconds()),
                    Quantities.milliseconds(point.stepSeconds()),
                    rate(point.tokensPerSecond()),
                    point.computeBound() ? "compute" : "memory",
                    Quantities.count(point.freeChunkTokens()),
                    point.fits() ? "" : " (1)");
        }
        if (plan.decode().stream().anyMatch(point -> !point.fits())) {
            line("  (1) more than B_max: its KV does not fit");
        }
        line("  free chunk: prompt tokens whose GEMMs fit into the step's memory time, beside the B tokens");
        row(
                "decode turns compute-bound at",
                plan.computeBoundBatch().isPresent()
                        ? "B = " + Quantities.count(plan.computeBoundBatch().getAsLong())
                        : "never",
                plan.computeBoundBatch().isPresent()
                        ? "by the formula above, whether or not it fits"
                        : "at this context KV reads grow faster than compute");
        for (Plan.GemmThreshold threshold : plan.gemmThresholds()) {
            row(
                    "  " + threshold.gemm().layers(),
                    threshold.rows().isPresent()
                            ? Quantities.count(Math.round(threshold.rows().getAsDouble())) + " rows"
                            : "never",
                    threshold.gemm().numInputs() + " x " + threshold.gemm().numOutputs() + ", the GEMM by itself");
        }
        Plan.Tpot tpot = plan.tpot();
        row(
                "largest B within " + Quantities.plain(tpot.limitSeconds() * 1e3) + " ms a token",
                Quantities.count(tpot.batchSize()),
                tpot.batchSize() == 0
                        ? "reading the weights and one sequence takes longer"
                        : rate(tpot.tokensPerSecond()) + " tokens/s; by time alone "
                                + Quantities.count(tpot.batchSizeByTime()) + " (--tpot)");
    }

    private void prefill() {
        Plan.Prefill prefill = plan.prefill();
        title("Prefill of " + Quantities.count(prefill.promptTokens()) + " tokens (--prompt)");
        row(
                "prefill time",
                Quantities.milliseconds(prefill.seconds()),
                "GEMMs " + Quantities.milliseconds(prefill.gemmSeconds()) + " + causal attention "
                        + Quantities.milliseconds(prefill.attentionSeconds()) + ", at least the time to read W");
        row("its KV", Quantities.bytes(prefill.kvBytes()), "tokens x k");
        row(
                "moving its KV",
                Quantities.milliseconds(prefill.transferSeconds()),
                "at " + Quantities.bytesPerSecond(request.device().linkBytesPerSecond()));
    }

    private void sharing() {
        Plan.Sharing sharing = plan.sharing();
        title(sharing.numSamples() + " samples of one prompt of " + Quantities.count(request.promptTokens())
                + " tokens, " + Quantities.count(request.outputTokens()) + " tokens out each (--samples, --output)");
        row(
                "prefill tokens",
                Quantities.count(sharing.prefillTokens()),
                "instead of " + Quantities.count(sharing.prefillTokensUnshared()) + "; saves "
                        + Quantities.milliseconds(sharing.prefillSecondsSaved()));
        row(
                "KV at the end",
                Quantities.bytes(sharing.kvBytes()),
                "instead of " + Quantities.bytes(sharing.kvBytesUnshared()));
        row(
                "last decode step",
                Quantities.milliseconds(sharing.stepSeconds()),
                "shared KV read once; else " + Quantities.milliseconds(sharing.stepSecondsUnshared()));
        row(
                "groups that fit",
                Quantities.count(sharing.numGroups()),
                "in whole blocks; without sharing " + Quantities.count(sharing.numGroupsUnshared()));
    }

    private void preemption() {
        Plan.Preemption preemption = plan.preemption();
        title("Preemption of a sequence of " + Quantities.count(preemption.numTokens()) + " tokens (--preempted)");
        row(
                "swap, each way",
                Quantities.milliseconds(preemption.swapSecondsOneWay()),
                "its KV at " + Quantities.bytesPerSecond(request.device().linkBytesPerSecond()));
        row(
                "recompute",
                Quantities.milliseconds(preemption.recomputeSeconds()),
                "prefill alone; its GEMMs " + Quantities.milliseconds(preemption.recomputeGemmSeconds()));
        row("cheaper", preemption.cheaper().name().toLowerCase(Locale.ROOT), "swap counted out and in");
    }

    private void tier() {
        Plan.Tier tier = plan.tier();
        String disk = Quantities.bytesPerSecond(request.diskBytesPerSecond());
        title("Prefix tier: " + Quantities.count(tier.numTokens()) + " stored tokens (--prompt)");
        row("load", Quantities.milliseconds(tier.loadSeconds()), "their KV at " + disk);
        row("recompute", Quantities.milliseconds(tier.computeSeconds()), "GEMMs and causal attention");
        row(
                "both, from the two ends",
                Quantities.milliseconds(tier.bothSeconds()),
                Quantities.count(tier.computedTokensOfBoth()) + " tokens computed from the front, "
                        + Quantities.count(tier.numTokens() - tier.computedTokensOfBoth()) + " loaded from the back");
        row(
                "loading wins from",
                tier.crossoverTokens().isPresent()
                        ? Quantities.count(tier.crossoverTokens().getAsLong()) + " tokens"
                        : "never",
                "prefixes as long or longer, at " + disk);
        row(
                "loading wins at any length from",
                Quantities.bytesPerSecond(tier.alwaysLoadBytesPerSecond()),
                "of disk: k / the GEMM time of a token");
    }

    private void speculation() {
        SpeculationCost cost = request.speculation();
        title("Speculation: draft cost c = " + Quantities.plain(cost.draftCost()) + " of a step, acceptance a = "
                + Quantities.plain(cost.acceptanceRate()));
        int last = plan.decode().size() - 1;
        String first = "B = " + Quantities.count(plan.decode().get(0).batchSize());
        String largest = "B = " + Quantities.count(plan.decode().get(last).batchSize());
        line("  %8s %12s %12s %14s %14s", "drafted", "tokens/pass", "speed-up", first, last == 0 ? "" : largest);
        for (Plan.SpeculationPoint point : plan.speculation()) {
            List<Double> byBatch = point.speedupsByBatch();
            line(
                    "  %8d %12s %12s %14s %14s",
                    point.numDraftTokens(),
                    Quantities.fixed(point.tokensPerPass(), 2),
                    Quantities.fixed(point.speedup(), 2),
                    Quantities.fixed(byBatch.get(0), 2),
                    last == 0 ? "" : Quantities.fixed(byBatch.get(last), 2));
        }
        line("  n drafted give (1 - a^(n+1)) / (1 - a) tokens a pass; speed-up: those / (n c + 1)");
        line("  B = ...: instead of 1, what verifying n + 1 tokens takes there in steps, by the roofline");
        line(
                "  best of these: %s at %s%s",
                drafted(plan.bestNumDraftTokens(0)),
                first,
                last == 0 ? "" : ", " + drafted(plan.bestNumDraftTokens(last)) + " at " + largest);
    }

    private static String drafted(int numDraftTokens) {
        return numDraftTokens == 0 ? "no speculation" : numDraftTokens + " drafted";
    }

    private static String rate(double perSecond) {
        return perSecond >= 100 ? Quantities.fixed(perSecond, 0) : Quantities.fixed(perSecond, 1);
    }

    private void title(String title) {
        text.append(text.length() == 0 ? "" : "\n").append(title).append('\n');
    }

    private void line(String format, Object... arguments) {
        text.append(String.format(Locale.ROOT, format, arguments).stripTrailing())
                .append('\n');
    }

    /** Label, value flush right, and the assumption, wrapped between words within its column. */
    private void row(String label, String value, String assumption) {
        StringBuilder line = new StringBuilder(
                String.format(Locale.ROOT, "  %-" + (LABEL_WIDTH - 2) + "s%" + VALUE_WIDTH + "s", label, value));
        int indent = Math.max(line.length(), LABEL_WIDTH + VALUE_WIDTH);
        line.append("  ");
        boolean first = true;
        for (String word : assumption.split(" ")) {
            if (!first && line.length() + 1 + word.length() > WIDTH) {
                text.append(line.toString().stripTrailing()).append('\n');
                line = new StringBuilder(" ".repeat(indent + 2)).append(word);
            } else {
                line.append(first ? "" : " ").append(word);
            }
            first = false;
        }
        text.append(line.toString().stripTrailing()).append('\n');
    }
}
