package io.millrace.bench.scenario;

import io.millrace.bench.ceiling.AttentionCeiling;
import io.millrace.bench.ceiling.Ceilings;
import io.millrace.bench.ceiling.GemmCeiling;
import io.millrace.bench.ceiling.LogitsCeiling;
import io.millrace.bench.ceiling.Tried;
import io.millrace.bench.report.Table;

/**
 * What a decode step of a rollout must at least do, part by part, none of it by the engine: products with weights, attention over
 * the shared prompts with its softmax, one read of the samples' own KV, exponentials of all logits. One thread.
 */
final class RolloutCeiling {
    private final GemmCeiling gemms;
    private final AttentionCeiling products;
    private final AttentionCeiling attention;
    private final LogitsCeiling logits;
    private final Ceilings ceilings;
    private final double ownBytes;

    /** The seconds of the parts in one turn, or their medians; attention's products alone are no part. */
    record Parts(
            double gemmSeconds,
            double attentionProductSeconds,
            double attentionSeconds,
            double ownKvSeconds,
            double logitsSeconds) {
        double stepSeconds() {
            return gemmSeconds + attentionSeconds + ownKvSeconds + logitsSeconds;
        }
    }

    /** Parts by turn. */
    static final class Turns {
        final Samples gemmSeconds = new Samples();
        final Samples attentionProductSeconds = new Samples();
        final Samples attentionSeconds = new Samples();
        final Samples ownKvSeconds = new Samples();
        final Samples logitsSeconds = new Samples();

        void add(Parts turn) {
            gemmSeconds.add(turn.gemmSeconds());
            attentionProductSeconds.add(turn.attentionProductSeconds());
            attentionSeconds.add(turn.attentionSeconds());
            ownKvSeconds.add(turn.ownKvSeconds());
            logitsSeconds.add(turn.logitsSeconds());
        }

        Parts medians() {
            return new Parts(
                    gemmSeconds.median(),
                    attentionProductSeconds.median(),
                    attentionSeconds.median(),
                    ownKvSeconds.median(),
                    logitsSeconds.median());
        }
    }

    /** Prepares the parts; until others of the ceilings' step products are asked for. */
    RolloutCeiling(BenchSettings settings, Ceilings ceilings, RolloutScenario.Sizes sizes) {
        this.ceilings = ceilings;
        gemms = ceilings.gemms(sizes.numSequences(), sizes.numSequences());
        products = ceilings.sharedAttentionProducts(sizes.numPrompts(), sizes.promptTokens(), sizes.numSamples());
        attention = ceilings.sharedAttention(sizes.numPrompts(), sizes.promptTokens(), sizes.numSamples());
        logits = ceilings.logits(sizes.numSequences());
        ownBytes = sizes.numSequences() * (sizes.newTokens() / 2.0) * EngineSession.kvBytesPerToken(settings);
    }

    /** Measures every part once. */
    Parts turn() {
        return new Parts(
                gemms.seconds(),
                products.seconds(),
                attention.seconds(),
                ownBytes / ceilings.readBandwidth().bytesPerSecond(),
                logits.seconds());
    }

    /** The ways that were tried, into a table of part, way and milliseconds. */
    void addTried(Table ways) {
        addTried(ways, "step's attention", attention);
        for (Tried tried : logits.tried()) {
            ways.add("step's logits", tried.way(), tried.seconds() * 1e3);
        }
    }

    static void addTried(Table ways, String part, AttentionCeiling attention) {
        for (Tried tried : attention.tried()) {
            ways.add(part, tried.way(), tried.seconds() * 1e3);
        }
    }
}
