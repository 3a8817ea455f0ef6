package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.Backend;
import io.millrace.backend.Dtype;
import io.millrace.backend.fake.FakeBackend;
import io.millrace.backend.fake.FakeModel;
import io.millrace.engine.Request.ResumedSample;
import io.millrace.engine.StepReport.Finished;
import io.millrace.engine.StepReport.PromptScores;
import io.millrace.engine.StepReport.RequestFailure;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.prefix.TierStats;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.TokenLogprobs;
import io.millrace.speculation.AcceptanceRule;
import io.millrace.speculation.DraftModel;
import io.millrace.speculation.Proposer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** Steps an engine over a fake backend, checks its books after every step and keeps a ledger of what it reported. */
final class EngineHarness implements AutoCloseable {
    static final int MAX_MODEL_LEN = 4096;

    /** What is known of one sample. */
    static final class Sample {
        final List<Integer> tokenIds = new ArrayList<>();
        final List<String> logprobs = new ArrayList<>();
        Finished finished;

        int[] ids() {
            return tokenIds.stream().mapToInt(Integer::intValue).toArray();
        }

        @Override
        public String toString() {
            return tokenIds + (finished == null ? "" : " " + finished.reason() + " " + finished.stopTokenId());
        }
    }

    /** What is known of one request. */
    static final class Entry {
        final Request request;
        final Map<Integer, Sample> samples = new TreeMap<>();
        String promptScores;
        RequestFailure failure;

        Entry(Request request) {
            this.request = request;
        }

        Sample sample(int place) {
            return samples.computeIfAbsent(place, p -> new Sample());
        }

        boolean isDone() {
            return failure != null
                    || samples.size() == request.sampling().n()
                            && samples.values().stream().allMatch(s -> s.finished != null);
        }

        /** The request as a restore submits it. */
        Request resumed() {
            List<ResumedSample> resumed = new ArrayList<>();
            samples.forEach(
                    (place, sample) -> resumed.add(new ResumedSample(place, sample.ids(), sample.finished != null)));
            return new Request(
                    request.id(),
                    request.promptTokenIds(),
                    request.sampling(),
                    request.priority(),
                    request.cacheSalt(),
                    resumed,
                    request.promptLogprobsNeeded() && promptScores == null);
        }
    }

    final InferenceEngine engine;
    final Map<String, Entry> ledger;
    int numSteps;

    private final Proposer proposer;

    EngineHarness(EngineConfig config, Backend backend, Map<String, Entry> ledger) {
        this(config, backend, null, ledger);
    }

    /** With speculation, unless the proposer is null. */
    EngineHarness(EngineConfig config, Backend backend, Proposer proposer, Map<String, Entry> ledger) {
        engine = new InferenceEngine(config, facts(), Optional.empty(), backend, Optional.ofNullable(proposer));
        this.proposer = proposer;
        this.ledger = ledger;
    }

    /** Over an engine of the test's own making. */
    EngineHarness(InferenceEngine engine, Map<String, Entry> ledger) {
        this.engine = engine;
        proposer = null;
        this.ledger = ledger;
    }

    EngineHarness(EngineConfig config, int numBlocks) {
        this(config, backend(config, numBlocks), new LinkedHashMap<>());
    }

    static ModelFacts facts() {
        return new ModelFacts(FakeModel.VOCAB_SIZE, List.of(FakeModel.EOS_TOKEN_ID, 3), MAX_MODEL_LEN, "fake model");
    }

    static FakeBackend backend(EngineConfig config, int numBlocks) {
        return new FakeBackend(numBlocks, config.blockSize(), FakeModel.VOCAB_SIZE, facts().eosTokenIds());
    }

    /** A draft model that errs in some of its draws. */
    static DraftModel draft(EngineConfig config, int numBlocks, double accuracy) {
        FakeBackend backend =
                new FakeBackend(numBlocks, config.blockSize(), FakeModel.VOCAB_SIZE, facts().eosTokenIds(), accuracy);
        return new DraftModel(
                backend,
                new DraftModel.Limits(
                        config.blockSize(),
                        config.enablePrefixCaching(),
                        config.maxNumBatchedTokens(),
                        config.maxNumSeqs(),
                        MAX_MODEL_LEN,
                        FakeModel.VOCAB_SIZE),
                AcceptanceRule.COUPLED);
    }

    static EngineConfig config(int maxNumSeqs, int maxNumBatchedTokens, boolean prefixCaching, int blockSize) {
        return new EngineConfig(
                "none",
                "fake",
                Dtype.AUTO,
                0,
                maxNumSeqs,
                maxNumBatchedTokens,
                1,
                prefixCaching,
                blockSize,
                0,
                LogprobsMode.RAW_LOGPROBS);
    }

    void submit(Request request) {
        ledger.put(request.id(), new Entry(request));
        engine.submit(request);
    }

    /** Submits everything in the ledger that has not ended, as after a restore. */
    void resume() {
        ledger.values().stream()
                .filter(entry -> !entry.isDone())
                .map(Entry::resumed)
                .forEach(engine::submit);
    }

    /** One step; false when idle. */
    boolean step() {
        StepReport report = engine.step();
        engine.checkIntegrity();
        if (proposer instanceof DraftModel draft) {
            draft.checkIntegrity();
        }
        if (report == null) {
            assertTrue(engine.isIdle() || engine.stats().tier() != TierStats.NONE);
            return false;
        }
        numSteps++;
        report.deltas().forEach(this::apply);
        for (PromptScores scores : report.promptScores()) {
            Entry entry = ledger.get(scores.requestId());
            assertNull(entry.promptScores, "prompt scores are reported once");
            entry.promptScores = text(scores.logprobs());
        }
        for (RequestFailure failure : report.failures()) {
            ledger.get(failure.requestId()).failure = failure;
        }
        return true;
    }

    void runToEnd(int maxSteps) {
        int limit = numSteps + maxSteps;
        while (step()) {
            assertTrue(numSteps < limit, "no end after " + maxSteps + " steps");
        }
        requireAllDone();
    }

    void requireAllDone() {
        for (Entry entry : ledger.values()) {
            assertTrue(entry.isDone(), () -> "request " + entry.request.id() + " did not end");
        }
        assertTrue(engine.stats().numUsedBlocks() == 0 && engine.stats().numUsedSlots() == 0, "blocks are left");
    }

    private void apply(SampleDelta delta) {
        Entry entry = ledger.get(delta.requestId());
        assertNotNull(entry, delta.requestId());
        Sample sample = entry.sample(delta.sample());
        assertNull(sample.finished, "a finished sample got news");
        for (int id : delta.tokenIds()) {
            sample.tokenIds.add(id);
        }
        if (delta.logprobs() != null) {
            for (TokenLogprobs logprobs : delta.logprobs()) {
                sample.logprobs.add(text(new TokenLogprobs[] {logprobs}));
            }
        }
        sample.finished = delta.finished();
    }

    static String text(TokenLogprobs[] logprobs) {
        StringBuilder text = new StringBuilder();
        for (TokenLogprobs entry : logprobs) {
            text.append(
                    entry == null
                            ? "-"
                            : entry.tokenId() + ":" + entry.logprob() + Arrays.toString(entry.topTokenIds())
                                    + Arrays.toString(entry.topLogprobs()));
            text.append(' ');
        }
        return text.toString();
    }

    @Override
    public void close() {
        engine.close();
    }
}
