package io.millrace.operators.prepare;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.model.GenerationDefaults;
import io.millrace.sampling.InvalidSamplingException;
import io.millrace.sampling.SamplingParams;
import io.millrace.schemas.Sampling;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class SamplingResolverTest {
    private static final GenerationDefaults MODEL = new GenerationDefaults(0.6f, 0.95f, 20, null, 1.1f, null);
    private static final GenerationDefaults NOTHING = new GenerationDefaults(null, null, null, null, null, null);

    @Test
    void theNearestGiverWins() {
        Sampling commandLine = new Sampling();
        commandLine.setTopP(0.5);
        commandLine.setTopK(7);
        Sampling request = new Sampling();
        request.setTopK(3);
        Sampling resolved = new SamplingResolver(commandLine, MODEL, 100).resolve(request, 10);
        assertEquals(3, resolved.getTopK());
        assertEquals(0.5, resolved.getTopP());
        assertEquals(0.6, resolved.getTemperature());
        assertEquals(1.1, resolved.getRepetitionPenalty());
        assertEquals(0.0, resolved.getMinP());
        assertNull(resolved.getSeed());
    }

    @Test
    void maxTokensIsCutToTheRemainingContextAndLeftToTheEngineWhereNobodyGivesIt() {
        SamplingResolver resolver = new SamplingResolver(new Sampling(), NOTHING, 100);
        assertNull(resolver.resolve(null, 10).getMaxTokens());
        Sampling request = new Sampling();
        request.setMaxTokens(1_000);
        assertEquals(90, resolver.resolve(request, 10).getMaxTokens());
        request.setMaxTokens(5);
        assertEquals(5, resolver.resolve(request, 10).getMaxTokens());
    }

    @Test
    void badSettingsNameThemselvesTheirLimitAndARemedy() {
        SamplingResolver resolver = new SamplingResolver(new Sampling(), NOTHING, 100);
        assertRefused(resolver, "temperature", "[0, 100]", s -> s.setTemperature(-1.0));
        assertRefused(resolver, "top_p", "at most 1", s -> s.setTopP(1.5));
        assertRefused(resolver, "top_k", "at least 1", s -> s.setTopK(-2));
        assertRefused(resolver, "n", "16384", s -> s.setN(1_000_000));
        assertRefused(resolver, "max_tokens", "at least 1", s -> s.setMaxTokens(0));
        assertRefused(resolver, "min_tokens", "max_tokens = 3", s -> {
            s.setMaxTokens(3);
            s.setMinTokens(4);
        });
        assertRefused(resolver, "logit_bias", "not a token id", s -> s.setLogitBias(Map.of("x", 1.0)));
        assertRefused(resolver, "stop", "empty text", s -> s.setStop(List.of("")));
        assertRefused(resolver, "logprobs", "[-1, 20]", s -> s.setLogprobs(21));
    }

    @Test
    void topKMinusOneIsOffAsInVllm() {
        Sampling request = new Sampling();
        request.setTopK(-1);
        assertEquals(
                0,
                new SamplingResolver(new Sampling(), MODEL, 100)
                        .resolve(request, 1)
                        .getTopK());
    }

    @Test
    void engineSettingsKeepEveryValue() {
        Sampling request = new Sampling();
        request.setN(3);
        request.setTemperature(0.0);
        request.setStop(List.of("END"));
        request.setStopTokenIds(List.of(4));
        request.setLogitBias(Map.of("5", -2.5));
        request.setLogprobs(2);
        request.setPromptLogprobs(0);
        request.setSampleIndex(9);
        request.setIgnoreEos(true);
        SamplingParams params =
                SamplingResolver.toParams(new SamplingResolver(new Sampling(), NOTHING, 100).resolve(request, 1), 42);
        assertEquals(3, params.n());
        assertTrue(params.isGreedy());
        assertEquals(List.of("END"), params.stop());
        assertEquals(List.of(4), params.stopTokenIds());
        assertEquals(Map.of(5, -2.5f), params.logitBias());
        assertEquals(2, params.numLogprobs());
        assertEquals(0, params.numPromptLogprobs());
        assertEquals(9, params.sampleIndex());
        assertEquals(42, params.seed());
        assertTrue(params.ignoreEos());
    }

    private static void assertRefused(
            SamplingResolver resolver, String setting, String limit, java.util.function.Consumer<Sampling> change) {
        Sampling request = new Sampling();
        change.accept(request);
        InvalidSamplingException e = assertThrows(InvalidSamplingException.class, () -> resolver.resolve(request, 10));
        assertTrue(e.getMessage().contains("'" + setting + "'"), e.getMessage());
        assertTrue(e.getMessage().contains(limit), e.getMessage());
        assertTrue(!e.remedy().isEmpty());
    }
}
