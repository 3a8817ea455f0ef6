package io.millrace.connect;

import io.millrace.schemas.Completion;
import io.millrace.schemas.CompletionMetrics;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.Header;
import io.millrace.schemas.PolicyVersion;
import io.millrace.schemas.PositionLogprobs;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Source;
import io.millrace.schemas.TokenLogprob;
import io.millrace.schemas.Usage;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Records for tests. */
public final class WireRecords {
    private WireRecords() {}

    /** Every field set. */
    public static Completion fullCompletion() {
        return Completion.newBuilder()
                .setRequestId("r-1")
                .setIndex(3)
                .setText("Grüße \"👋\"\n\u0001")
                .setTokenIds(List.of(1, 2147483647, 0))
                .setLogprobs(List.of(new PositionLogprobs(
                        1, -0.1f, List.of(new TokenLogprob(1, -0.1f), new TokenLogprob(5, Float.NEGATIVE_INFINITY)))))
                .setCumulativeLogprob(-1.1)
                .setFinishReason("stop")
                .setStopReason("END")
                .setUsage(new Usage(100, 64, 32, 3))
                .setPolicyVersion(new PolicyVersion(1L, 2L, List.of(1L, 1L, 2L)))
                .setSeed(-5L)
                .setMetrics(new CompletionMetrics(0.25, 1e-5, 12.0))
                .setPromptLogprobs(
                        List.of(new PositionLogprobs(7, null, List.of()), new PositionLogprobs(8, -2e-7f, List.of())))
                .setPromptTokenIds(List.of(7, 8))
                .setGroupId("g")
                .setGroundTruth("\"4\\u0032\"")
                .setMetadata("{\"a\" : [1.50,\n\r1e400]}")
                .setSource(new Source("in.jsonl", 7L, null, null, null))
                .setNumericFingerprint("cpu-1")
                .setHeaders(List.of(new Header("trace", ByteBuffer.wrap(new byte[] {1, 2})), new Header("none", null)))
                .build();
    }

    /** Only what must be set. */
    public static Completion smallCompletion(String requestId, int index, Source source) {
        return Completion.newBuilder()
                .setRequestId(requestId)
                .setIndex(index)
                .setText("ok")
                .setTokenIds(List.of(1, 2))
                .setFinishReason("length")
                .setStopReason(null)
                .setUsage(new Usage(10, 0, 0, 2))
                .setPolicyVersion(new PolicyVersion(0L, 0L, null))
                .setSeed(0L)
                .setSource(source)
                .setNumericFingerprint("cpu-1")
                .setHeaders(List.of())
                .build();
    }

    public static DeadLetter deadLetter(byte[] original) {
        return DeadLetter.newBuilder()
                .setRequestId("r-9")
                .setSource(new Source(null, null, "prompts", 2, 5L))
                .setOriginal(ByteBuffer.wrap(original))
                .setHeaders(List.of(new Header("trace", ByteBuffer.wrap(new byte[] {9}))))
                .setError(new ErrorInfo("invalid_field", "n is \"3\"", "Correct it."))
                .setEmittedIndices(List.of(0, 2))
                .build();
    }

    /** What a job makes of a record that could not be read. */
    public static DeadLetter deadLetter(PromptEnvelope envelope) {
        return DeadLetter.newBuilder()
                .setRequestId(envelope.getRequestId())
                .setSource(envelope.getSource())
                .setOriginal(envelope.getOriginal())
                .setHeaders(envelope.getHeaders())
                .setError(envelope.getError())
                .setEmittedIndices(List.of())
                .build();
    }

    public static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
