package io.millrace.bench.scenario;

import io.millrace.bench.ceiling.Ceilings;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.engine.Request;
import java.util.List;
import java.util.stream.IntStream;

/**
 * A few long prompts with many samples each: the prompts are computed once, and attention reads what samples share once for
 * all of them. The whole is held against its parts measured alone, and steps with shared reads take turns with steps of an
 * engine that reads every sequence's blocks by themselves, and with what a step must at least do.
 */
public final class RolloutScenario implements Scenario {
    private static final int STEPS_PER_TURN = 8;
    /** Fewer, since they take longer: that engine falls behind in own tokens, which is to its favour. */
    private static final int UNSHARED_STEPS_PER_TURN = 2;

    private static final int MAX_WARM_UP_PROMPT_TOKENS = 128;
    private static final double MAX_WARM_UP_SECONDS = 2.5;

    private final Sizes sizes;

    /**
     * How much.
     *
     * @param numPrompts distinct prompts
     * @param promptTokens of each
     * @param numSamples of each prompt
     * @param newTokens of each sample
     */
    public record Sizes(int numPrompts, int promptTokens, int numSamples, int newTokens) {
        public static final Sizes SPECIFIED = new Sizes(8, 1024, 16, 64);

        int numSequences() {
            return numPrompts * numSamples;
        }
    }

    public RolloutScenario(Sizes sizes) {
        this.sizes = sizes;
    }

    /** What a round measured. */
    private static final class Measured {
        final Samples totalSeconds = new Samples();
        final Samples prefillSeconds = new Samples();
        final Samples stepsSeconds = new Samples();
        final Samples overParts = new Samples();
        final Samples speedUp = new Samples();
        final Samples sharedStepSeconds = new Samples();
        final Samples unsharedStepSeconds = new Samples();
        final RolloutCeiling.Turns ceiling = new RolloutCeiling.Turns();
        final Samples overProducts = new Samples();
        final Samples overCeiling = new Samples();
        long numPrefillTokens;
        int numSteps;
        int numUnsharedSteps;
        long sharedBytes;
        long unsharedBytes;
        boolean bytesCounted = true;
    }

    @Override
    public Report run(BenchSettings settings) {
        int numRounds = settings.pick(1, 3);
        Report report = Machine.newReport("rollout", settings)
                .config("prompts", sizes.numPrompts())
                .config("prompt_tokens", sizes.promptTokens())
                .config("samples", sizes.numSamples())
                .config("new_tokens", sizes.newTokens())
                .config("rounds", numRounds);
        Measured measured = new Measured();
        Workload workload = new Workload(settings.model().shape().vocabSize(), settings.seed());
        // Prompts of a round stay cached while the next one's are computed.
        long numKvTokens = 2L * sizes.numPrompts() * (sizes.promptTokens() + EngineSession.BLOCK_SIZE)
                + (long) sizes.numSequences()
                        * (sizes.newTokens() + 4 * STEPS_PER_TURN + 3L * EngineSession.BLOCK_SIZE);
        int maxNumSeqs = sizes.numSequences();
        try (EngineSession shared =
                        new EngineSession(settings, new EngineSession.Options(maxNumSeqs, numKvTokens, true, true));
                EngineSession unshared =
                        new EngineSession(settings, new EngineSession.Options(maxNumSeqs, numKvTokens, true, false));
                Ceilings ceilings =
                        new Ceilings(settings.model().shape(), settings.bfloat16(), settings.numCeilingThreads())) {
            RolloutCeiling ceiling = new RolloutCeiling(settings, ceilings, sizes);
            ceiling.turn(); // warms what comes in between
            settings.say("rollout, warming up");
            warmUp(shared, unshared, workload);
            for (int round = 0; round < numRounds; round++) {
                settings.say("rollout, round %d of %d", round + 1, numRounds);
                round(shared, unshared, ceiling, workload, measured);
            }
        }
        fill(report, measured);
        return report;
    }

    /** Prompts as long as those measured, then all the samples' steps behind shorter ones; both engines run the same code. */
    private void warmUp(EngineSession shared, EngineSession unshared, Workload workload) {
        WarmUp.untilStable(
                MAX_WARM_UP_SECONDS, () -> PrefillScenario.prefill(unshared, workload, sizes.promptTokens()));
        List<int[]> prompts = prompts(workload, Math.min(sizes.promptTokens(), MAX_WARM_UP_PROMPT_TOKENS));
        shared.runToEnd(requests(workload, prompts, 2 * STEPS_PER_TURN));
        unshared.runToEnd(requests(workload, prompts, 2 * UNSHARED_STEPS_PER_TURN));
    }

    private void round(
            EngineSession shared,
            EngineSession unshared,
            RolloutCeiling ceiling,
            Workload workload,
            Measured measured) {
        List<int[]> prompts = prompts(workload, sizes.promptTokens());
        double prefills = 0;
        for (int[] prompt :
                prompts) { // they stay cached there, as those of the whole do in the other engine, for the steps
            prefills += unshared.runToEnd(List.of(workload.request(prompt, 1, 1)));
        }
        long tokensBefore = shared.stats().numPromptTokens();
        double total = shared.runToEnd(requests(workload, prompts, sizes.newTokens()));
        measured.numPrefillTokens = shared.stats().numPromptTokens() - tokensBefore;
        double steps = alternateSteps(shared, unshared, ceiling, workload, prompts, measured);
        measured.totalSeconds.add(total);
        measured.prefillSeconds.add(prefills);
        measured.stepsSeconds.add(steps);
        measured.overParts.add(total / (prefills + steps));
    }

    private List<int[]> prompts(Workload workload, int numTokens) {
        return IntStream.range(0, sizes.numPrompts())
                .mapToObj(i -> workload.prompt(numTokens))
                .toList();
    }

    private List<Request> requests(Workload workload, List<int[]> prompts, int newTokens) {
        return prompts.stream()
                .map(prompt -> workload.request(prompt, newTokens, sizes.numSamples()))
                .toList();
    }

    /** Decode steps of all samples in both engines, turn by turn; returns the seconds of those with shared reads. */
    private double alternateSteps(
            EngineSession shared,
            EngineSession unshared,
            RolloutCeiling ceiling,
            Workload workload,
            List<int[]> prompts,
            Measured measured) {
        int numSteps = sizes.newTokens();
        List<Request> requests = requests(workload, prompts, numSteps + 4 * STEPS_PER_TURN);
        requests.forEach(shared::submit);
        shared.prefill(sizes.numSequences());
        requests.forEach(unshared::submit);
        unshared.prefill(sizes.numSequences());
        double seconds = 0;
        int done = 0;
        while (done < numSteps) {
            int turn = Math.min(STEPS_PER_TURN, numSteps - done);
            Samples with = new Samples();
            Samples without = new Samples();
            long sharedBefore = shared.stats().numKvBytesRead();
            long unsharedBefore = unshared.stats().numKvBytesRead();
            for (int i = 0; i < turn; i++) {
                with.add(shared.timedStep());
            }
            int unsharedTurn = Math.min(UNSHARED_STEPS_PER_TURN, turn);
            for (int i = 0; i < unsharedTurn; i++) {
                without.add(unshared.timedStep());
            }
            measured.bytesCounted &= sharedBefore >= 0 && unsharedBefore >= 0;
            measured.numSteps += turn;
            measured.numUnsharedSteps += unsharedTurn;
            measured.sharedBytes += shared.stats().numKvBytesRead() - sharedBefore;
            measured.unsharedBytes += unshared.stats().numKvBytesRead() - unsharedBefore;
            measured.sharedStepSeconds.add(with.median());
            measured.unsharedStepSeconds.add(without.median());
            measured.speedUp.add(without.median() / with.median());
            RolloutCeiling.Parts parts = ceiling.turn();
            measured.ceiling.add(parts);
            measured.overProducts.add(with.median() / (parts.gemmSeconds() + parts.attentionProductSeconds()));
            measured.overCeiling.add(with.median() / parts.stepSeconds());
            seconds += with.sum();
            done += turn;
        }
        shared.cancel(requests);
        unshared.cancel(requests);
        return seconds;
    }

    private void fill(Report report, Measured measured) {
        Table whole = report.table(
                "rollout",
                "total_s",
                "prefills_alone_s",
                "decode_steps_alone_s",
                "over_parts",
                "prefill_tokens_computed",
                "new_tokens_per_s");
        long numNewTokens = (long) sizes.numSequences() * sizes.newTokens();
        whole.add(
                measured.totalSeconds.median(),
                measured.prefillSeconds.median(),
                measured.stepsSeconds.median(),
                measured.overParts.median(),
                measured.numPrefillTokens,
                numNewTokens / measured.totalSeconds.median());
        Table reads = report.table(
                "shared_reads",
                "step_ms",
                "step_without_ms",
                "times_faster",
                "kv_mb_read_per_step",
                "kv_mb_read_without",
                "share_read");
        double sharedBytes = measured.sharedBytes / (double) measured.numSteps;
        double unsharedBytes = measured.unsharedBytes / (double) measured.numUnsharedSteps;
        double bytesRatio = measured.bytesCounted && unsharedBytes > 0 ? sharedBytes / unsharedBytes : Double.NaN;
        reads.add(
                measured.sharedStepSeconds.median() * 1e3,
                measured.unsharedStepSeconds.median() * 1e3,
                measured.speedUp.median(),
                measured.bytesCounted ? Double.valueOf(sharedBytes / 1e6) : null,
                measured.bytesCounted ? Double.valueOf(unsharedBytes / 1e6) : null,
                bytesRatio);
        RolloutCeiling.Parts parts = measured.ceiling.medians();
        report.table("step_products", "gemm_ms", "attention_products_ms", "step_over_products")
                .add(parts.gemmSeconds() * 1e3, parts.attentionProductSeconds() * 1e3, measured.overProducts.median());
        report.table(
                        "step_ceiling",
                        "gemm_ms",
                        "attention_ms",
                        "own_kv_ms",
                        "logits_ms",
                        "step_ceiling_ms",
                        "step_over_ceiling")
                .add(
                        parts.gemmSeconds() * 1e3,
                        parts.attentionSeconds() * 1e3,
                        parts.ownKvSeconds() * 1e3,
                        parts.logitsSeconds() * 1e3,
                        parts.stepSeconds() * 1e3,
                        measured.overCeiling.median());
        boolean asSpecified = sizes.equals(Sizes.SPECIFIED);
        String name = "rollout, 8 prompts of 1,024 x 16 x 64 new: ";
        report.check(
                name + "prefill tokens computed",
                asSpecified ? Double.valueOf(measured.numPrefillTokens) : null,
                Op.EQUAL,
                8192);
        report.check(
                name + "total over (8 prefills + 64 decode steps, each alone)",
                asSpecified ? Double.valueOf(measured.overParts.median()) : null,
                Op.AT_MOST,
                1.15);
        report.check(
                name + "KV bytes read over those without shared reads",
                asSpecified ? Double.valueOf(bytesRatio) : null,
                Op.AT_MOST,
                0.125);
        report.check(
                name + "step without shared reads over step with them",
                asSpecified ? Double.valueOf(measured.speedUp.median()) : null,
                Op.AT_LEAST,
                1.0);
    }
}
