package io.millrace.operators.inference;

import io.millrace.operators.prepare.TokenBytes;
import io.millrace.sampling.TokenLogprobs;
import io.millrace.schemas.SampleProgress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** What was generated of one sample and not yet emitted. Task thread only. */
final class SampleLedger {
    private static final int[] NONE = {};

    private int[] tokenIds = NONE;
    private int numTokens;
    private List<TokenLogprobs> logprobs = List.of();
    private boolean emitted;

    static SampleLedger restored(SampleProgress progress) {
        SampleLedger sample = new SampleLedger();
        sample.emitted = progress.getEmitted();
        sample.tokenIds = TokenBytes.decode(progress.getTokenIds());
        sample.numTokens = sample.tokenIds.length;
        if (progress.getLogprobs() != null) {
            sample.logprobs = LogprobsCodec.decode(progress.getLogprobs());
        }
        return sample;
    }

    SampleProgress progress(int sample) {
        ByteBuffer encodedLogprobs = logprobs.isEmpty() ? null : LogprobsCodec.encode(logprobs);
        return new SampleProgress(sample, emitted, TokenBytes.encode(tokenIds, numTokens), encodedLogprobs);
    }

    void append(int[] newTokenIds, TokenLogprobs[] newLogprobs) {
        if (numTokens + newTokenIds.length > tokenIds.length) {
            tokenIds = Arrays.copyOf(tokenIds, Math.max(16, 2 * numTokens + newTokenIds.length));
        }
        System.arraycopy(newTokenIds, 0, tokenIds, numTokens, newTokenIds.length);
        numTokens += newTokenIds.length;
        if (newLogprobs != null) {
            if (logprobs.isEmpty()) {
                logprobs = new ArrayList<>();
            }
            logprobs.addAll(Arrays.asList(newLogprobs));
        }
    }

    /** Its completion left the operator: only that fact is kept. */
    void markEmitted() {
        emitted = true;
        tokenIds = NONE;
        numTokens = 0;
        logprobs = List.of();
    }

    boolean isEmitted() {
        return emitted;
    }

    boolean isUntouched() {
        return !emitted && numTokens == 0;
    }

    int numTokens() {
        return numTokens;
    }

    int[] tokenIds() {
        return Arrays.copyOf(tokenIds, numTokens);
    }

    List<TokenLogprobs> logprobs() {
        return logprobs;
    }
}
