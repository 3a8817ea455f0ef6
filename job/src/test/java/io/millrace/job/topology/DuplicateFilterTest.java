package io.millrace.job.topology;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.connect.json.PromptJson;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Source;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.Test;

@SuppressWarnings("try") // the harness' close may be interrupted, says its signature
class DuplicateFilterTest {

    @Test
    void laterOccurrencesFailAlsoAfterARestoreAndBadOnesClaimNothing() throws Exception {
        org.apache.flink.runtime.checkpoint.OperatorSubtaskState snapshot;
        try (var harness = harness()) {
            harness.open();
            harness.processElement(envelope(1, "{\"request_id\": \"a\", \"prompt\": \"x\"}"), 0);
            harness.processElement(envelope(2, "{\"request_id\": \"b\", \"promt\": \"x\"}"), 0);
            harness.processElement(envelope(3, "{\"request_id\": \"b\", \"prompt\": \"x\"}"), 0);
            harness.processElement(envelope(4, "{\"prompt\": \"x\"}"), 0);
            harness.processElement(envelope(5, "{\"prompt\": \"x\"}"), 0);
            harness.processElement(envelope(6, "{\"request_id\": \"a\", \"prompt\": \"x\"}"), 0);
            assertEquals(
                    List.of("ok", "unknown_field", "ok", "ok", "ok", "duplicate_request_id"),
                    codes(harness.extractOutputValues()));
            String message = harness.extractOutputValues().get(5).getError().getMessage();
            assertTrue(message.contains("line 6") && message.contains("line 1"), message);
            snapshot = harness.snapshot(1, 1);
        }
        try (var harness = harness()) {
            harness.initializeState(snapshot);
            harness.open();
            harness.processElement(envelope(7, "{\"request_id\": \"b\", \"prompt\": \"x\"}"), 0);
            assertEquals(List.of("duplicate_request_id"), codes(harness.extractOutputValues()));
        }
    }

    private static List<String> codes(List<PromptEnvelope> envelopes) {
        return envelopes.stream()
                .map(envelope ->
                        envelope.getError() == null ? "ok" : envelope.getError().getCode())
                .toList();
    }

    private static PromptEnvelope envelope(long line, String json) {
        Source source = Source.newBuilder().setFile("f").setLine(line).build();
        return PromptJson.parse(json.getBytes(StandardCharsets.UTF_8), source, List.of());
    }

    private static KeyedOneInputStreamOperatorTestHarness<String, PromptEnvelope, PromptEnvelope> harness()
            throws Exception {
        return new KeyedOneInputStreamOperatorTestHarness<>(
                new KeyedProcessOperator<>(new DuplicateFilter()), new DuplicateFilter.ByRequestId(), Types.STRING);
    }
}
