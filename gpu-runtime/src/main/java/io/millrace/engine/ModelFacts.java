package io.millrace.engine;

import io.millrace.model.ModelDirectory;
import java.util.List;

/**
 * What the engine itself needs to know of a model.
 *
 * @param vocabSize ids are 0 … vocabSize-1
 * @param eosTokenIds all ids that end a sample
 * @param maxModelLen the model's own context limit in tokens
 * @param fingerprint of config, weights and tokenizer
 */
public record ModelFacts(int vocabSize, List<Integer> eosTokenIds, int maxModelLen, String fingerprint) {
    public ModelFacts {
        eosTokenIds = List.copyOf(eosTokenIds);
    }

    static ModelFacts of(ModelDirectory model) {
        return new ModelFacts(
                model.spec().vocabSize(),
                model.spec().eosTokenIds(),
                model.spec().maxPositionEmbeddings(),
                model.fingerprint());
    }
}
