package io.millrace.operators.inference;

import io.millrace.engine.Request;
import io.millrace.operators.prepare.SamplingResolver;
import io.millrace.operators.prepare.TokenBytes;
import io.millrace.sampling.SamplingParams;
import io.millrace.sampling.TokenLogprobs;
import io.millrace.schemas.LedgerRequest;
import io.millrace.schemas.PreparedRequest;
import io.millrace.schemas.RequestProgress;
import io.millrace.schemas.SampleProgress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A request that the engine works on: the record, and per sample what was generated and whether it was emitted. Together
 * with the keyed state it is the one truth about the request. Task thread only.
 */
final class LedgerEntry {
    private final LedgerRequest stored;
    private final SamplingParams sampling;
    private final int[] promptTokenIds;
    private final SampleLedger[] samples;
    private int numUnfinished;
    private List<TokenLogprobs> promptLogprobs;
    private int numCachedTokens = -1;
    private int numTierTokens = -1;
    private boolean changed;
    private boolean begun;

    /** @param progress what an earlier start generated, or null */
    LedgerEntry(LedgerRequest stored, RequestProgress progress) {
        this.stored = stored;
        PreparedRequest request = stored.getRequest();
        this.sampling = SamplingResolver.toParams(request.getSampling(), stored.getSeed());
        this.promptTokenIds = TokenBytes.decode(request.getPromptTokenIds());
        this.samples = new SampleLedger[sampling.n()];
        this.numUnfinished = sampling.n();
        this.begun = progress != null;
        if (progress != null) {
            for (SampleProgress sample : progress.getSamples()) {
                samples[sample.getSample()] = SampleLedger.restored(sample);
                numUnfinished -= sample.getEmitted() ? 1 : 0;
            }
            if (progress.getPromptLogprobs() != null) {
                promptLogprobs = LogprobsCodec.decode(progress.getPromptLogprobs());
            }
            numCachedTokens = progress.getCachedTokens();
            numTierTokens = progress.getTierTokens();
        }
    }

    /** The engine's view, going on from what was generated. */
    Request toRequest() {
        List<Request.ResumedSample> resumed = new ArrayList<>();
        for (int i = 0; i < samples.length; i++) {
            if (samples[i] != null && !samples[i].isUntouched()) {
                resumed.add(new Request.ResumedSample(i, samples[i].tokenIds(), samples[i].isEmitted()));
            }
        }
        String cacheSalt = request().getCacheSalt() == null ? "" : request().getCacheSalt();
        boolean promptLogprobsNeeded = sampling.numPromptLogprobs() >= 0 && promptLogprobs == null;
        return new Request(
                uid(),
                promptTokenIds,
                sampling,
                request().getPriority(),
                cacheSalt,
                resumed,
                promptLogprobsNeeded,
                key());
    }

    RequestProgress toProgress() {
        List<SampleProgress> progress = new ArrayList<>();
        for (int i = 0; i < samples.length; i++) {
            if (samples[i] != null && !samples[i].isUntouched()) {
                progress.add(samples[i].progress(i));
            }
        }
        return new RequestProgress(
                progress,
                promptLogprobs == null ? null : LogprobsCodec.encode(promptLogprobs),
                numCachedTokens,
                numTierTokens);
    }

    SampleLedger sample(int index) {
        if (samples[index] == null) {
            samples[index] = new SampleLedger();
        }
        return samples[index];
    }

    void markEmitted(int index) {
        sample(index).markEmitted();
        numUnfinished--;
    }

    void keepPromptLogprobs(TokenLogprobs[] scores) {
        // Entry 0 is null: the first token has no context.
        promptLogprobs = List.copyOf(Arrays.asList(scores).subList(1, scores.length));
    }

    List<Integer> emittedIndices() {
        List<Integer> indices = new ArrayList<>();
        for (int i = 0; i < samples.length; i++) {
            if (samples[i] != null && samples[i].isEmitted()) {
                indices.add(sampling.sampleIndex() + i);
            }
        }
        return indices;
    }

    String uid() {
        return request().getUid();
    }

    long key() {
        return request().getRoutingKey();
    }

    long seed() {
        return stored.getSeed();
    }

    PreparedRequest request() {
        return stored.getRequest();
    }

    SamplingParams sampling() {
        return sampling;
    }

    int[] promptTokenIds() {
        return promptTokenIds;
    }

    List<TokenLogprobs> promptLogprobs() {
        return promptLogprobs;
    }

    int numUnfinished() {
        return numUnfinished;
    }

    /** Prompt tokens whose KV was found in memory, as the first sample that finished said. */
    int numCachedTokens() {
        return Math.max(0, numCachedTokens);
    }

    /** Prompt tokens whose KV was loaded from the prefix tier, as the first sample that finished said. */
    int numTierTokens() {
        return Math.max(0, numTierTokens);
    }

    /** Keeps what the first sample that finishes says of the prompt: after a restore the prompt is found in other places. */
    void keepPromptSources(int cachedTokens, int tierTokens) {
        if (numCachedTokens < 0) {
            numCachedTokens = cachedTokens;
            numTierTokens = tierTokens;
        }
    }

    /** True once for a request that had begun before this start. */
    boolean takeBegun() {
        boolean was = begun;
        begun = false;
        return was;
    }

    /** Whether anything was learnt since the last checkpoint wrote the entry. */
    boolean isChanged() {
        return changed;
    }

    void setChanged(boolean value) {
        changed = value;
    }
}
