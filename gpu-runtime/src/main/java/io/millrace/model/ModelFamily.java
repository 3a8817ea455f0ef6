package io.millrace.model;

import java.util.List;
import java.util.Set;

/** One family of models: how its config.json and weight names map to a {@link ModelSpec}. Stateless. */
interface ModelFamily {

    /** Every family that is supported; a new one is added here and nowhere else. */
    List<ModelFamily> ALL = List.of(new LlamaFamily());

    /** The model_type of its config.json. */
    String modelType();

    /** The entries of config.json's architectures that it serves. */
    Set<String> architectures();

    /**
     * Describes the decoder.
     *
     * @param generationEosTokenIds EOS ids of generation_config.json; may be empty
     * @throws InvalidModelException naming a key that is missing, wrong or asks for something unsupported
     */
    ModelSpec describe(JsonFile config, List<Integer> generationEosTokenIds);

    /** Finds the family of a config.json by model_type, and checks its architectures where it lists them. */
    static ModelFamily of(JsonFile config) {
        String modelType = config.optionalText("model_type", null);
        if (modelType == null) {
            throw new InvalidModelException(config.where() + " lacks 'model_type'; supported: " + supported());
        }
        for (ModelFamily family : ALL) {
            if (family.modelType().equals(modelType)) {
                requireArchitecture(config, family);
                return family;
            }
        }
        throw config.invalid("model_type", "is not supported; supported: " + supported());
    }

    private static void requireArchitecture(JsonFile config, ModelFamily family) {
        if (!config.has("architectures")) {
            return;
        }
        for (com.fasterxml.jackson.databind.JsonNode architecture : config.get("architectures")) {
            if (family.architectures().contains(architecture.asText())) {
                return;
            }
        }
        throw config.invalid("architectures", "names no supported one; supported: " + supported());
    }

    private static String supported() {
        StringBuilder text = new StringBuilder();
        for (ModelFamily family : ALL) {
            text.append(text.length() == 0 ? "" : ", ")
                    .append(family.modelType())
                    .append(" (")
                    .append(String.join(", ", family.architectures()))
                    .append(')');
        }
        return text.toString();
    }
}
