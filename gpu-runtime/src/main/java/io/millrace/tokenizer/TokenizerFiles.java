package io.millrace.tokenizer;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the tokenizer files of a model directory say: tokenizer.json with the special tokens that tokenizer_config.json
 * adds or marks, the named special tokens, and the chat template. Belongs to the thread that opens the tokenizer.
 */
final class TokenizerFiles {
    static final String TOKENIZER = "tokenizer.json";
    static final String CONFIG = "tokenizer_config.json";
    static final String TEMPLATE = "chat_template.jinja";

    private static final Logger LOG = LoggerFactory.getLogger(TokenizerFiles.class);
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Path tokenizerFile;
    private final ObjectNode tokenizer;
    private final Map<String, String> namedTokens = new TreeMap<>();
    private String chatTemplate;
    private Path chatTemplateFile;

    /** Throws InvalidTokenizerException when a file cannot be read or lacks what every tokenizer has. */
    TokenizerFiles(Path directory) {
        tokenizerFile = directory.resolve(TOKENIZER);
        tokenizer = readObject(tokenizerFile);
        if (!tokenizer.path("model").path("vocab").isContainerNode()) {
            throw new InvalidTokenizerException(tokenizerFile
                    + ": model.vocab is missing; use the file that the model's publisher ships or export it again"
                    + " (tokenizer.save_pretrained)");
        }
        Path configFile = directory.resolve(CONFIG);
        if (Files.exists(configFile)) {
            readConfig(configFile);
        }
        Path templateFile = directory.resolve(TEMPLATE);
        if (Files.exists(templateFile)) {
            chatTemplate = read(templateFile);
            chatTemplateFile = templateFile;
        }
        matchSpecialTokensVerbatim();
    }

    /**
     * Where the normaliser prepends a character, the library looks for a normalised special token with that character in
     * front, and so misses it everywhere but at the start of a text. Older exports of Llama tokenizers have this fault.
     */
    private void matchSpecialTokensVerbatim() {
        if (!tokenizer.path("normalizer").toString().contains("\"Prepend\"")) {
            return;
        }
        for (JsonNode token : addedTokens()) {
            if (token.path("special").asBoolean() && token.path("normalized").asBoolean()) {
                ((ObjectNode) token).put("normalized", false);
                LOG.warn(
                        "{}: special token {} is marked normalized, which hides it behind the prepended character;"
                                + " taking it verbatim (set \"normalized\": false in added_tokens)",
                        tokenizerFile,
                        token.path("content"));
            }
        }
    }

    /** The tokenizer's JSON tree. */
    ObjectNode tokenizer() {
        return tokenizer;
    }

    Path tokenizerFile() {
        return tokenizerFile;
    }

    /** The added_tokens array; each has content, id, special and the matching flags. */
    ArrayNode addedTokens() {
        JsonNode added = tokenizer.get("added_tokens");
        return added instanceof ArrayNode ? (ArrayNode) added : tokenizer.putArray("added_tokens");
    }

    /** bos_token, eos_token and the others a template may name. */
    Map<String, String> namedTokens() {
        return namedTokens;
    }

    /** The Jinja source of the chat template, or null. */
    String chatTemplate() {
        return chatTemplate;
    }

    /** The file that holds the chat template. */
    Path chatTemplateFile() {
        return chatTemplateFile;
    }

    /** The token texts of the model itself, by id. */
    Map<String, Integer> modelVocabulary() {
        Map<String, Integer> ids = new LinkedHashMap<>();
        JsonNode vocab = tokenizer.path("model").path("vocab");
        if (vocab.isObject()) {
            vocab.properties().forEach(e -> ids.put(e.getKey(), e.getValue().asInt()));
        } else {
            for (int id = 0; id < vocab.size(); id++) {
                ids.put(vocab.get(id).path(0).asText(), id);
            }
        }
        return ids;
    }

    private void readConfig(Path file) {
        ObjectNode config = readObject(file);
        config.properties().forEach(entry -> {
            String text = tokenText(entry.getValue());
            if (entry.getKey().endsWith("_token") && text != null) {
                namedTokens.put(entry.getKey(), text);
            }
        });
        readChatTemplate(file, config.path("chat_template"));
        Map<String, Integer> vocabulary = modelVocabulary();
        Map<Integer, JsonNode> declared = new TreeMap<>();
        config.path("added_tokens_decoder")
                .properties()
                .forEach(e -> declared.put(parseId(file, e.getKey()), e.getValue()));
        declared.forEach(this::declare);
        namedTokens.values().forEach(text -> markSpecial(text, vocabulary));
        config.path("additional_special_tokens").forEach(node -> markSpecial(tokenText(node), vocabulary));
    }

    private void readChatTemplate(Path file, JsonNode node) {
        if (node.isTextual()) {
            chatTemplate = node.textValue();
        } else if (node.isArray()) {
            for (JsonNode named : node) {
                if (chatTemplate == null || named.path("name").asText().equals("default")) {
                    chatTemplate = named.path("template").textValue();
                }
            }
        } else if (!node.isMissingNode() && !node.isNull()) {
            throw new InvalidTokenizerException(
                    file + ": chat_template is neither a text nor a list of named templates; correct it or remove it");
        }
        chatTemplateFile = file;
    }

    /** A token of tokenizer_config.json that tokenizer.json lacks is added there, as transformers does. */
    private void declare(int id, JsonNode declaration) {
        String content = declaration.path("content").asText();
        boolean special = declaration.path("special").asBoolean();
        if (content.isEmpty()) {
            return;
        }
        ObjectNode token = addedToken(content);
        if (token == null) {
            token = addedTokens().addObject();
            token.put("id", id).put("content", content);
            for (String flag : new String[] {"single_word", "lstrip", "rstrip"}) {
                token.put(flag, declaration.path(flag).asBoolean());
            }
            token.put("normalized", declaration.path("normalized").asBoolean(!special));
            token.put("special", special);
        } else if (special) {
            token.put("special", true);
        }
    }

    private void markSpecial(String text, Map<String, Integer> vocabulary) {
        if (text == null || text.isEmpty()) {
            return;
        }
        ObjectNode token = addedToken(text);
        Integer id = vocabulary.get(text);
        if (token != null) {
            token.put("special", true);
        } else if (id != null) {
            addedTokens()
                    .addObject()
                    .put("id", id)
                    .put("content", text)
                    .put("single_word", false)
                    .put("lstrip", false)
                    .put("rstrip", false)
                    .put("normalized", false)
                    .put("special", true);
        }
    }

    private ObjectNode addedToken(String content) {
        for (JsonNode token : addedTokens()) {
            if (token.path("content").asText().equals(content)) {
                return (ObjectNode) token;
            }
        }
        return null;
    }

    /** A token is written as its text or as an object with the text in "content"; null for anything else. */
    private static String tokenText(JsonNode node) {
        return node.isObject() ? node.path("content").textValue() : node.textValue();
    }

    private static int parseId(Path file, String key) {
        try {
            return Integer.parseInt(key);
        } catch (NumberFormatException e) {
            throw new InvalidTokenizerException(
                    file + ": added_tokens_decoder has the key \"" + key + "\", which is no token id; correct it", e);
        }
    }

    private static ObjectNode readObject(Path file) {
        try {
            JsonNode node = JSON.readTree(read(file));
            if (node instanceof ObjectNode) {
                return (ObjectNode) node;
            }
            throw new InvalidTokenizerException(file + " holds no JSON object; download it again");
        } catch (JsonProcessingException e) {
            throw new InvalidTokenizerException(
                    file + " is no valid JSON (" + e.getOriginalMessage() + "); download it again", e);
        }
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            throw new InvalidTokenizerException(
                    "cannot read " + file + " (" + e + "); check that it is a readable UTF-8 file", e);
        }
    }
}
