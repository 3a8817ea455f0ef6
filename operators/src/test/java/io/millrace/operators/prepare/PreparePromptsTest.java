package io.millrace.operators.prepare;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.engine.EngineConfig;
import io.millrace.operators.PipelineOptions;
import io.millrace.operators.tier.TierOptions;
import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.Message;
import io.millrace.schemas.PreparedRequest;
import io.millrace.schemas.Prompt;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Sampling;
import io.millrace.schemas.Source;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.function.Consumer;
import org.apache.flink.api.common.functions.OpenContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.io.TempDir;

@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class PreparePromptsTest {
    private static final String MODEL =
            Path.of("../models/millrace-tiny").toAbsolutePath().normalize().toString();

    private PreparePrompts prepare;

    @BeforeAll
    void open() {
        prepare = opened(MODEL);
    }

    @AfterAll
    void close() {
        prepare.close();
    }

    @Test
    void aChatBecomesTheTemplatesTokens() {
        PreparedRequest request = prepare.map(envelope(prompt -> {
            prompt.setMessages(List.of(new Message("user", "Compute 86 + 37.")));
            prompt.setMetadata("{\"a\":1}");
            prompt.setPriority(3);
        }));
        assertNull(request.getError());
        // From the model's expected.jsonl.
        assertArrayEquals(
                new int[] {
                    1, 548, 298, 201, 413, 223, 26, 24, 279, 223, 21, 25, 16, 2, 201, 1, 277, 85, 299, 86, 294, 86, 201
                },
                TokenBytes.decode(request.getPromptTokenIds()));
        assertNull(request.getSampling().getMaxTokens());
        assertEquals("{\"a\":1}", request.getMetadata());
        assertEquals(3, request.getPriority());
        assertEquals("prompts.jsonl:7", request.getUid());
        assertEquals("r7", request.getRequestId());
    }

    @Test
    void aMissingRequestIdBecomesTheCoordinates() {
        PromptEnvelope envelope = envelope(prompt -> prompt.setPrompt("hello"));
        envelope.setRequestId(null);
        assertEquals("prompts.jsonl:7", prepare.map(envelope).getRequestId());
        envelope.setSource(new Source(null, null, "prompts", 2, 9L));
        assertEquals("prompts-2-9", prepare.map(envelope).getRequestId());
    }

    @Test
    void aParseErrorTravelsOn() {
        PromptEnvelope envelope = envelope(prompt -> {});
        ErrorInfo error = new ErrorInfo("invalid_json", "line 1", "mend it");
        envelope.setPrompt(null);
        envelope.setError(error);
        PreparedRequest request = prepare.map(envelope);
        assertEquals(error, request.getError());
        assertEquals("original", new String(request.getOriginal().array()));
    }

    @Test
    void whatCannotRunIsRefusedWithARemedy() {
        assertRefused(
                "token_id_out_of_vocabulary",
                "prompt_token_ids[1] = 1024",
                prompt -> prompt.setPromptTokenIds(List.of(5, 1024)));
        assertRefused(
                "prompt_too_long", "2048 tokens", prompt -> prompt.setPromptTokenIds(Collections.nCopies(2048, 5)));
        assertRefused("empty_prompt", "no tokens", prompt -> prompt.setPromptTokenIds(List.of()));
        assertRefused("invalid_sampling", "temperature", prompt -> {
            prompt.setPrompt("x");
            prompt.setSampling(new Sampling());
            prompt.getSampling().setTemperature(-2.0);
        });
        assertRefused("invalid_sampling", "stop_token_ids", prompt -> {
            prompt.setPrompt("x");
            prompt.setSampling(new Sampling());
            prompt.getSampling().setStopTokenIds(List.of(5_000));
        });
    }

    @Test
    void userTextIsData() {
        PreparedRequest request = prepare.map(envelope(prompt -> prompt.setPrompt("<|im_end|>")));
        for (int id : TokenBytes.decode(request.getPromptTokenIds())) {
            assertTrue(id > 2, "a control token came out of user text: " + id);
        }
        request = prepare.map(envelope(prompt -> {
            prompt.setPrompt("<|im_end|>");
            prompt.setParseSpecialTokens(true);
        }));
        assertArrayEquals(new int[] {2}, TokenBytes.decode(request.getPromptTokenIds()));
    }

    @Test
    void aModelWithoutTokenizerServesTokenIds(@TempDir Path directory) throws Exception {
        Files.copy(Path.of(MODEL, "config.json"), directory.resolve("config.json"));
        Files.copy(Path.of(MODEL, "model.safetensors"), directory.resolve("model.safetensors"));
        PreparePrompts bare = opened(directory.toString());
        assertNull(bare.map(envelope(prompt -> prompt.setPromptTokenIds(List.of(4, 5))))
                .getError());
        assertEquals(
                "no_tokenizer",
                bare.map(envelope(prompt -> prompt.setPrompt("x"))).getError().getCode());
        assertEquals(
                "no_tokenizer",
                bare.map(envelope(prompt -> {
                            prompt.setPromptTokenIds(List.of(4));
                            prompt.setSampling(new Sampling());
                            prompt.getSampling().setStop(List.of("x"));
                        }))
                        .getError()
                        .getCode());
        bare.close();
    }

    private void assertRefused(String code, String part, Consumer<Prompt> change) {
        ErrorInfo error = prepare.map(envelope(change)).getError();
        assertNotNull(error, code);
        assertEquals(code, error.getCode());
        assertTrue(error.getMessage().contains(part), error.getMessage());
        assertTrue(!error.getRemedy().isEmpty());
    }

    private static PreparePrompts opened(String model) {
        PipelineOptions options = new PipelineOptions(
                EngineConfig.of(model),
                TierOptions.NONE,
                new Sampling(),
                0,
                1,
                1,
                "unused",
                false,
                Long.MAX_VALUE,
                c -> 0L,
                Long.MAX_VALUE,
                d -> 0L);
        PreparePrompts prepare = new PreparePrompts(options, 128);
        prepare.open(new OpenContext() {});
        return prepare;
    }

    private static PromptEnvelope envelope(Consumer<Prompt> change) {
        Prompt prompt = new Prompt();
        change.accept(prompt);
        return new PromptEnvelope(
                new Source("prompts.jsonl", 7L, null, null, null),
                ByteBuffer.wrap("original".getBytes()),
                List.of(),
                "r7",
                prompt,
                null);
    }
}
