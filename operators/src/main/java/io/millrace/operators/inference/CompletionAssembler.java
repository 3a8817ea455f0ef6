package io.millrace.operators.inference;

import io.millrace.engine.StepReport.Finished;
import io.millrace.sampling.TokenLogprobs;
import io.millrace.schemas.Completion;
import io.millrace.schemas.CompletionMetrics;
import io.millrace.schemas.PolicyVersion;
import io.millrace.schemas.PositionLogprobs;
import io.millrace.schemas.PreparedRequest;
import io.millrace.schemas.Usage;
import java.util.ArrayList;
import java.util.List;

/** Makes the output record of a finished sample from the ledger and the engine's last word on it. Task thread only. */
final class CompletionAssembler {
    private static final double NANOS_PER_MILLI = 1e6;

    private final String numericFingerprint;
    private final long policyVersion;

    CompletionAssembler(String numericFingerprint, long policyVersion) {
        this.numericFingerprint = numericFingerprint;
        this.policyVersion = policyVersion;
    }

    Completion assemble(LedgerEntry entry, int sampleIndex, Finished finished) {
        PreparedRequest request = entry.request();
        SampleLedger sample = entry.sample(sampleIndex);
        int[] tokenIds = sample.tokenIds();
        Completion completion = new Completion();
        completion.setRequestId(request.getRequestId());
        completion.setIndex(entry.sampling().sampleIndex() + sampleIndex);
        completion.setText(finished.text());
        completion.setTokenIds(boxed(tokenIds));
        if (entry.sampling().numLogprobs() >= 0) {
            completion.setLogprobs(LogprobsCodec.toWire(sample.logprobs()));
            completion.setCumulativeLogprob(sum(sample.logprobs()));
        }
        completion.setFinishReason(finished.reason().wireName());
        completion.setStopReason(stopReason(finished));
        completion.setUsage(new Usage(
                entry.promptTokenIds().length, entry.numCachedTokens(), entry.numTierTokens(), tokenIds.length));
        completion.setPolicyVersion(new PolicyVersion(policyVersion, policyVersion, null));
        completion.setSeed(entry.seed());
        completion.setMetrics(metrics(finished, tokenIds.length));
        if (entry.promptLogprobs() != null) {
            completion.setPromptLogprobs(promptLogprobs(entry));
        }
        if (request.getReturnPromptTokenIds()) {
            completion.setPromptTokenIds(boxed(entry.promptTokenIds()));
        }
        completion.setGroupId(request.getGroupId());
        completion.setGroundTruth(request.getGroundTruth());
        completion.setMetadata(request.getMetadata());
        completion.setSource(request.getSource());
        completion.setNumericFingerprint(numericFingerprint);
        completion.setHeaders(request.getHeaders());
        return completion;
    }

    private static List<PositionLogprobs> promptLogprobs(LedgerEntry entry) {
        List<PositionLogprobs> wire = new ArrayList<>();
        wire.add(new PositionLogprobs(entry.promptTokenIds()[0], null, List.of()));
        wire.addAll(LogprobsCodec.toWire(entry.promptLogprobs()));
        return wire;
    }

    private static Object stopReason(Finished finished) {
        if (finished.stopText() != null) {
            return finished.stopText();
        }
        return finished.stopTokenId() >= 0 ? (Object) finished.stopTokenId() : null;
    }

    private static CompletionMetrics metrics(Finished finished, int numTokens) {
        double perToken = numTokens > 1 ? finished.decodeNanos() / NANOS_PER_MILLI / (numTokens - 1) : 0;
        return new CompletionMetrics(
                finished.queueNanos() / NANOS_PER_MILLI, finished.firstTokenNanos() / NANOS_PER_MILLI, perToken);
    }

    private static double sum(List<TokenLogprobs> logprobs) {
        double sum = 0;
        for (TokenLogprobs token : logprobs) {
            sum += token.logprob();
        }
        return sum;
    }

    private static List<Integer> boxed(int[] values) {
        List<Integer> list = new ArrayList<>(values.length);
        for (int value : values) {
            list.add(value);
        }
        return list;
    }
}
