package io.millrace.plan;

import java.util.List;
import java.util.Optional;

/** Published models by name, from their config.json files. */
public final class NamedShapes {
    private static final List<ModelShape> ALL = List.of(
            biasless("smollm2-135m", 49_152, 576, 30, 9, 3, 64, 1_536, true, 8_192),
            new ModelShape(
                    "qwen2.5-0.5b",
                    151_936,
                    896,
                    24,
                    14,
                    2,
                    64,
                    4_864,
                    true,
                    ModelShape.vectorParameters(896, 896, 128, 4_864, true, false, false),
                    32_768),
            biasless("llama-3.2-1b", 128_256, 2_048, 16, 32, 8, 64, 8_192, true, 131_072),
            biasless("llama-3-8b", 128_256, 4_096, 32, 32, 8, 128, 14_336, false, 8_192),
            biasless("llama-3-70b", 128_256, 8_192, 80, 64, 8, 128, 28_672, false, 8_192),
            biasless("llama-2-7b", 32_000, 4_096, 32, 32, 32, 128, 11_008, false, 4_096));

    private NamedShapes() {}

    /** The names, smallest model first within a generation. */
    public static List<String> names() {
        return ALL.stream().map(ModelShape::name).toList();
    }

    /** The shape of that name; empty where there is none. */
    public static Optional<ModelShape> find(String name) {
        return ALL.stream().filter(shape -> shape.name().equals(name)).findFirst();
    }

    private static ModelShape biasless(
            String name,
            int vocabSize,
            int hiddenSize,
            int numLayers,
            int numQueryHeads,
            int numKvHeads,
            int headDim,
            int intermediateSize,
            boolean tiedEmbeddings,
            int maxPositionEmbeddings) {
        return new ModelShape(
                name,
                vocabSize,
                hiddenSize,
                numLayers,
                numQueryHeads,
                numKvHeads,
                headDim,
                intermediateSize,
                tiedEmbeddings,
                2L * hiddenSize,
                maxPositionEmbeddings);
    }
}
