package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.fake.FakeBackend;
import io.millrace.backend.fake.FakeBackendProvider;
import io.millrace.backend.fake.FakeModel;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.model.ModelDirectory;
import io.millrace.sampling.SamplingParams;
import io.millrace.sequence.Sequence;
import io.millrace.speculation.AcceptanceRule;
import io.millrace.speculation.Proposer;
import io.millrace.speculation.SpeculationMethod;
import io.millrace.speculation.SpeculationStats;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What speculation saves, where it is cut, and which settings and models it refuses. */
class SpeculationTest {
    private static final Path TARGET = Path.of("../models/millrace-tiny");
    private static final Path DRAFT = Path.of("../models/millrace-tiny-draft");

    @TempDir
    Path directory;

    private static SpeculativeConfig fixed(int numTokens) {
        return new SpeculativeConfig(SpeculationMethod.NGRAM, numTokens, false, 4, 2, "", AcceptanceRule.COUPLED);
    }

    private static EngineHarness harness(int numTokens, Proposer proposer) {
        EngineConfig config = EngineHarness.config(8, 256, true, 16).withSpeculative(fixed(numTokens));
        return new EngineHarness(config, EngineHarness.backend(config, 64), proposer, new LinkedHashMap<>());
    }

    private static Request request(int maxTokens) {
        return new Request(
                "r",
                new int[] {10, 11, 12},
                SamplingParams.builder()
                        .maxTokens(maxTokens)
                        .ignoreEos(true)
                        .numLogprobs(1)
                        .build());
    }

    @Test
    void aDraftThatIsAlwaysRightSavesTheStepsItShould() {
        EngineConfig config = EngineHarness.config(8, 256, true, 16);
        try (EngineHarness harness = harness(4, EngineHarness.draft(config, 64, 1))) {
            harness.submit(request(22)); // the prompt's step draws 1, four steps 5 each, the last 1
            List<Integer> lengths = new ArrayList<>();
            for (StepReport report = harness.engine.step(); report != null; report = harness.engine.step()) {
                for (SampleDelta delta : report.deltas()) {
                    lengths.add(delta.tokenIds().length);
                    assertEquals(delta.tokenIds().length, delta.logprobs().length);
                }
            }
            assertEquals(List.of(1, 5, 5, 5, 5, 1), lengths);
            SpeculationStats stats = harness.engine.stats().speculation();
            assertEquals(16, stats.numProposedTokens(), "none beyond max_tokens");
            assertEquals(16, stats.numAcceptedTokens());
            assertEquals(1, stats.acceptanceRate());
            assertEquals(22, harness.engine.stats().numGeneratedTokens());
        }
    }

    @Test
    void aStopInTheMiddleOfAnAcceptedRunCutsItThere() {
        List<Integer> plain;
        try (EngineHarness harness = harness(1, null)) {
            harness.submit(request(40));
            harness.runToEnd(100);
            plain = harness.ledger.get("r").sample(0).tokenIds;
        }
        for (int stop = 0; stop < plain.size(); stop++) {
            if (plain.indexOf(plain.get(stop)) < stop) {
                continue;
            }
            EngineConfig config = EngineHarness.config(8, 256, true, 16);
            try (EngineHarness harness = harness(7, EngineHarness.draft(config, 64, 1))) {
                SamplingParams params = request(40).sampling().toBuilder()
                        .stopTokenIds(List.of(plain.get(stop)))
                        .build();
                harness.submit(new Request("r", new int[] {10, 11, 12}, params));
                harness.runToEnd(100);
                EngineHarness.Sample sample = harness.ledger.get("r").sample(0);
                assertEquals(plain.subList(0, stop + 1), sample.tokenIds);
                assertEquals(stop + 1, sample.logprobs.size());
                assertEquals(plain.get(stop), sample.finished.stopTokenId());
                assertEquals(stop + 1, harness.engine.stats().numGeneratedTokens());
            }
        }
    }

    /** Guesses a token that the device cannot compute. */
    private static final class FatalGuesses implements Proposer {
        @Override
        public void propose(List<Sequence> sequences, int[] limits, double minChance) {
            sequences.forEach(sequence -> sequence.propose(FakeBackend.FAULT_TOKEN_ID, null));
        }

        @Override
        public void forget(Sequence sequence) {}

        @Override
        public void close() {}
    }

    @Test
    void aGuessThatCannotBeComputedFailsNobody() {
        try (EngineHarness harness = harness(3, new FatalGuesses());
                EngineHarness plain = harness(3, null)) {
            harness.submit(request(30));
            harness.runToEnd(100);
            plain.submit(request(30));
            plain.runToEnd(100);
            assertNull(harness.ledger.get("r").failure);
            assertEquals(
                    plain.ledger.get("r").sample(0).toString(),
                    harness.ledger.get("r").sample(0).toString());
            assertEquals(0, harness.engine.stats().speculation().numProposedTokens());
        }
    }

    @Test
    void aDraftOfAnotherVocabularyIsRefusedNamingBoth() throws IOException {
        Path other = FakeModel.write(directory.resolve("other"), 256);
        SpeculativeConfig speculative = SpeculativeConfig.of(SpeculationMethod.DRAFT_MODEL, other.toString());
        EngineConfig config = EngineConfig.of(TARGET.toString()).withSpeculative(speculative);
        InvalidConfigException refused = assertThrows(
                InvalidConfigException.class, () -> InferenceEngine.open(config, new FakeBackendProvider()));
        assertNames(refused, other, TARGET, "1000", "1024");

        Path swapped = directory.resolve("swapped");
        Files.createDirectories(swapped);
        for (String name : List.of("config.json", "model.safetensors", "tokenizer.json")) {
            Files.copy(DRAFT.resolve(name), swapped.resolve(name));
        }
        Path tokenizer = swapped.resolve("tokenizer.json");
        String text = Files.readString(tokenizer);
        Files.writeString(tokenizer, text + "\n");
        ModelDirectory target = ModelDirectory.open(TARGET);
        assertDoesNotThrow(() -> Proposers.requireSameVocabulary(target, ModelDirectory.open(swapped)));
        Files.writeString(tokenizer, text.replace("<|im_end|>", "<|END|>"));
        refused = assertThrows(
                InvalidConfigException.class,
                () -> Proposers.requireSameVocabulary(target, ModelDirectory.open(swapped)));
        assertNames(refused, swapped, TARGET, "tokenizer.json");
    }

    private static void assertNames(InvalidConfigException refused, Path draft, Path target, String... more) {
        String message = refused.getMessage();
        assertTrue(message.contains(draft.toAbsolutePath().normalize().toString()), message);
        assertTrue(message.contains(target.toAbsolutePath().normalize().toString()), message);
        for (String word : more) {
            assertTrue(message.contains(word), message);
        }
    }

    @Test
    void settingsOutsideOfTheirLimitsAreRefused() {
        assertRefused("--num-speculative-tokens = 0", () -> fixed(0));
        assertRefused("--num-speculative-tokens = 65", () -> fixed(65));
        assertRefused("--prompt-lookup-min = 0", () -> lookup(0, 3));
        assertRefused("--prompt-lookup-max = 2", () -> lookup(3, 2));
        assertRefused("--speculative-model", () -> SpeculativeConfig.of(SpeculationMethod.DRAFT_MODEL, ""));
        assertRefused("--speculative-model = m", () -> SpeculativeConfig.of(SpeculationMethod.NGRAM, "m"));
        assertEquals(
                SpeculativeConfig.NONE, EngineHarness.config(1, 1, true, 16).speculative());
    }

    private static SpeculativeConfig lookup(int min, int max) {
        return new SpeculativeConfig(SpeculationMethod.NGRAM, 3, true, max, min, "", AcceptanceRule.COUPLED);
    }

    private static void assertRefused(String key, org.junit.jupiter.api.function.Executable making) {
        InvalidConfigException refused = assertThrows(InvalidConfigException.class, making);
        assertTrue(refused.getMessage().contains(key), refused.getMessage());
    }
}
