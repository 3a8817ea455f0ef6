package io.millrace.tokenizer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.util.HashMap;
import java.util.Map;

/**
 * Makes the guarded twin of a tokenizer.json: the same tokenizer, in which every control token is called by its
 * stand-in. Everything else stays as it is, so a text in which stand-ins replace control tokens gives the very ids that
 * the original gives for the original text, whatever the normaliser, pre-tokeniser and model are.
 */
final class GuardedVocabulary {
    private GuardedVocabulary() {}

    static ObjectNode rename(ObjectNode tokenizer, ControlTokens control) {
        Map<String, String> standIns = new HashMap<>();
        control.tokens().forEach(token -> standIns.put(token.text(), token.standIn()));
        ObjectNode guarded = tokenizer.deepCopy();
        for (JsonNode token : guarded.withArray("added_tokens")) {
            String standIn = standIns.get(token.path("content").asText());
            if (standIn != null) {
                // Whether the token stands alone is decided on the original text, before the stand-in goes in.
                ((ObjectNode) token).put("content", standIn).put("single_word", false);
            }
        }
        ObjectNode model = (ObjectNode) guarded.get("model");
        renameVocabulary(model, standIns);
        String unknown = model.path("unk_token").textValue();
        if (unknown != null && standIns.containsKey(unknown)) {
            model.put("unk_token", standIns.get(unknown));
        }
        if (model.get("merges") instanceof ArrayNode) {
            removeMergesInto((ArrayNode) model.get("merges"), standIns);
        }
        return guarded;
    }

    private static void renameVocabulary(ObjectNode model, Map<String, String> standIns) {
        JsonNode vocabulary = model.get("vocab");
        if (vocabulary instanceof ObjectNode) {
            standIns.forEach((text, standIn) -> {
                JsonNode id = ((ObjectNode) vocabulary).remove(text);
                if (id != null) {
                    ((ObjectNode) vocabulary).set(standIn, id);
                }
            });
            return;
        }
        for (JsonNode piece : vocabulary) {
            String standIn = standIns.get(piece.path(0).asText());
            if (standIn != null) {
                ((ArrayNode) piece).set(0, new TextNode(standIn));
            }
        }
    }

    /** A merge whose result is a control token would build it from plain text, and names an entry that is gone. */
    private static void removeMergesInto(ArrayNode merges, Map<String, String> standIns) {
        for (int i = merges.size() - 1; i >= 0; i--) {
            JsonNode merge = merges.get(i);
            String merged = merge.isArray()
                    ? merge.path(0).asText() + merge.path(1).asText()
                    : merge.asText().replaceFirst(" ", "");
            if (standIns.containsKey(merged)) {
                merges.remove(i);
            }
        }
    }
}
