package io.millrace.operators.inference;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.engine.Request;
import io.millrace.model.GenerationDefaults;
import io.millrace.operators.prepare.SamplingResolver;
import io.millrace.operators.prepare.TokenBytes;
import io.millrace.sampling.TokenLogprobs;
import io.millrace.schemas.LedgerRequest;
import io.millrace.schemas.PreparedRequest;
import io.millrace.schemas.RequestProgress;
import io.millrace.schemas.Sampling;
import io.millrace.schemas.Source;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.junit.jupiter.api.Test;

class LedgerEntryTest {
    @Test
    void progressSurvivesACheckpoint() throws Exception {
        LedgerEntry entry = new LedgerEntry(stored(3, 2), null);
        TokenLogprobs[] logprobs = {
            new TokenLogprobs(11, -0.5f, new int[] {11, 4}, new float[] {-0.5f, -1.5f}),
            new TokenLogprobs(12, -0.25f, new int[] {12, 9}, new float[] {-0.25f, -2.5f})
        };
        entry.sample(0).append(new int[] {11, 12}, logprobs);
        entry.sample(2).append(new int[] {13}, new TokenLogprobs[] {logprobs[0]});
        entry.markEmitted(2);
        entry.keepPromptLogprobs(new TokenLogprobs[] {null, logprobs[1]});
        entry.keepPromptSources(32, 128);

        LedgerEntry restored = new LedgerEntry(stored(3, 2), roundTrip(entry.toProgress()));
        assertEquals(2, restored.numUnfinished());
        assertEquals(List.of(2), restored.emittedIndices());
        assertArrayEquals(new int[] {11, 12}, restored.sample(0).tokenIds());
        assertEquals(
                LogprobsCodec.toWire(entry.sample(0).logprobs()),
                LogprobsCodec.toWire(restored.sample(0).logprobs()));
        assertEquals(1, restored.promptLogprobs().size());
        restored.keepPromptSources(160, 0);
        assertEquals(32, restored.numCachedTokens(), "after a restore the prompt is found in other places");
        assertEquals(128, restored.numTierTokens());

        Request request = restored.toRequest();
        assertFalse(request.promptLogprobsNeeded());
        assertEquals(2, request.resumed().size());
        assertEquals(0, request.resumed().get(0).sample());
        assertArrayEquals(new int[] {11, 12}, request.resumed().get(0).tokenIds());
        assertFalse(request.resumed().get(0).finished());
        assertEquals(2, request.resumed().get(1).sample());
        assertTrue(request.resumed().get(1).finished());
    }

    @Test
    void aFreshRequestResumesNothing() {
        Request request = new LedgerEntry(stored(2, null), null).toRequest();
        assertTrue(request.resumed().isEmpty());
        assertEquals("t-0-5", request.id());
        assertArrayEquals(new int[] {1, 2, 3}, request.promptTokenIds());
        assertEquals(77, request.sampling().seed());
    }

    private static RequestProgress roundTrip(RequestProgress progress) throws Exception {
        TypeSerializer<RequestProgress> serializer = new AvroTypeInfo<>(RequestProgress.class)
                .createSerializer(new org.apache.flink.api.common.serialization.SerializerConfigImpl());
        DataOutputSerializer out = new DataOutputSerializer(64);
        serializer.serialize(progress, out);
        return serializer.deserialize(new DataInputDeserializer(out.getCopyOfBuffer()));
    }

    private static LedgerRequest stored(int n, Integer numPromptLogprobs) {
        Sampling sampling = new Sampling();
        sampling.setN(n);
        sampling.setLogprobs(1);
        sampling.setPromptLogprobs(numPromptLogprobs);
        PreparedRequest request = new PreparedRequest();
        request.setUid("t-0-5");
        request.setRequestId("r");
        request.setSource(new Source(null, null, "t", 0, 5L));
        request.setOriginal(ByteBuffer.allocate(0));
        request.setHeaders(List.of());
        request.setPromptTokenIds(TokenBytes.encode(new int[] {1, 2, 3}));
        GenerationDefaults none = new GenerationDefaults(null, null, null, null, null, null);
        request.setSampling(new SamplingResolver(new Sampling(), none, 100).resolve(sampling, 3));
        return new LedgerRequest(0L, 77L, request);
    }
}
