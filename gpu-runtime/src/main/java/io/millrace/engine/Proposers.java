package io.millrace.engine;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.backend.BackendConfig;
import io.millrace.backend.BackendProvider;
import io.millrace.model.ModelDirectory;
import io.millrace.model.ModelSpec;
import io.millrace.sampling.LogprobsMode;
import io.millrace.speculation.DraftModel;
import io.millrace.speculation.PromptLookup;
import io.millrace.speculation.Proposer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** Opens the proposer that a configuration names, and checks that a draft model speaks the target's language. */
final class Proposers {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Proposers() {}

    /**
     * Opens.
     *
     * @param maxModelLen most tokens of a sequence of the target
     * @return empty if the configuration does not speculate
     * @throws InvalidConfigException if the draft model does not fit the target, naming both
     */
    static Optional<Proposer> open(
            EngineConfig config, BackendProvider provider, ModelDirectory target, int maxModelLen) {
        SpeculativeConfig speculative = config.speculative();
        return switch (speculative.method()) {
            case NONE -> Optional.empty();
            case NGRAM ->
                Optional.of(new PromptLookup(
                        speculative.promptLookupMin(), speculative.promptLookupMax(), speculative.rule()));
            case DRAFT_MODEL -> Optional.of(openDraft(config, provider, target, maxModelLen));
        };
    }

    private static DraftModel openDraft(
            EngineConfig config, BackendProvider provider, ModelDirectory target, int maxModelLen) {
        SpeculativeConfig speculative = config.speculative();
        ModelDirectory draft = provider.openModel(Path.of(speculative.model()));
        requireSameVocabulary(target, draft);
        int draftModelLen = Math.min(maxModelLen, draft.spec().maxPositionEmbeddings());
        // As many tokens as the target's KV cache holds, and at least one sequence.
        double share = (double) kvElementsPerToken(draft.spec()) / kvElementsPerToken(target.spec());
        long kvCacheMemoryBytes = (long) Math.ceil(config.kvCacheMemoryBytes() * share);
        return new DraftModel(
                provider.open(new BackendConfig(
                        draft,
                        config.dtype(),
                        config.blockSize(),
                        kvCacheMemoryBytes,
                        config.maxNumBatchedTokens(),
                        config.maxNumSeqs(),
                        draftModelLen,
                        config.numThreads(),
                        LogprobsMode.RAW_LOGPROBS,
                        config.kvCacheDtype())),
                new DraftModel.Limits(
                        config.blockSize(),
                        config.enablePrefixCaching(),
                        config.maxNumBatchedTokens(),
                        config.maxNumSeqs(),
                        draftModelLen,
                        draft.spec().vocabSize()),
                speculative.rule());
    }

    private static long kvElementsPerToken(ModelSpec spec) {
        return 2L * spec.numLayers() * spec.numKvHeads() * spec.headDim();
    }

    static void requireSameVocabulary(ModelDirectory target, ModelDirectory draft) {
        if (target.spec().vocabSize() != draft.spec().vocabSize()) {
            throw unlike(
                    target,
                    draft,
                    "its vocabulary has " + draft.spec().vocabSize() + " tokens, that of " + target.path() + " has "
                            + target.spec().vocabSize());
        }
        Path targetFile = target.path().resolve("tokenizer.json");
        Path draftFile = draft.path().resolve("tokenizer.json");
        if (!Files.exists(targetFile) || !Files.exists(draftFile)) {
            return; // ids of equally many tokens; without a text there is no more to compare
        }
        try {
            if (Files.mismatch(targetFile, draftFile) < 0) {
                return;
            }
            JsonNode targetTokens = JSON.readTree(targetFile.toFile());
            JsonNode draftTokens = JSON.readTree(draftFile.toFile());
            if (!targetTokens.at("/model/vocab").equals(draftTokens.at("/model/vocab"))
                    || !targetTokens.at("/added_tokens").equals(draftTokens.at("/added_tokens"))) {
                throw unlike(target, draft, "its tokenizer.json names other tokens than the one of " + target.path());
            }
        } catch (IOException e) {
            throw new InvalidConfigException(
                    "--speculative-model",
                    draft.path(),
                    "its tokenizer.json cannot be compared with the one of " + target.path() + ": " + e.getMessage(),
                    "mend the files");
        }
    }

    private static InvalidConfigException unlike(ModelDirectory target, ModelDirectory draft, String difference) {
        return new InvalidConfigException(
                "--speculative-model",
                draft.path(),
                difference + "; a draft model must share the vocabulary of the model it drafts for",
                "choose a smaller model of the same family as " + target.path() + ", or --speculative-method ngram");
    }
}
