package io.millrace.tokenizer;

import com.fasterxml.jackson.databind.JsonNode;
import io.millrace.tokenizer.template.MarkedText;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A model's tokenizer and chat template. Thread-safe; close waits for calls in progress, later ones throw
 * IllegalStateException.
 *
 * <p>Text from outside is data: a control token in it ("&lt;|im_start|&gt;") becomes the ordinary tokens of its
 * characters. Control tokens are the special tokens of tokenizer.json and tokenizer_config.json and those added tokens
 * that look like markers and that the chat template itself writes. In a chat only what the template wrote becomes a
 * control token; see {@link MarkedText} and {@link ControlTokens} for how they are told apart. A chat without such text
 * has the ids of the rendered template.
 */
public final class Tokenizer implements AutoCloseable {
    private final NativeTokenizer original;
    private final NativeTokenizer guarded;
    private final ControlTokens control;
    private final ByteLevelTokens byteLevel;
    private final boolean[] special;
    private final ChatTemplate chatTemplate;

    private Tokenizer(TokenizerFiles files) {
        Map<String, Integer> vocabulary = files.modelVocabulary();
        special = specialById(files, vocabulary);
        byteLevel = byteLevelTokens(files, vocabulary, special);
        control = controlTokens(files);
        chatTemplate = files.chatTemplate() == null
                ? null
                : new ChatTemplate(
                        files.chatTemplate(), files.chatTemplateFile().toString(), files.namedTokens());
        original = open(files, files.tokenizer().toString());
        try {
            guarded = open(
                    files, GuardedVocabulary.rename(files.tokenizer(), control).toString());
        } catch (RuntimeException e) {
            original.close();
            throw e;
        }
        checkStandIns(files);
    }

    /**
     * Opens the tokenizer of a model directory; empty when there is no tokenizer.json. Throws
     * InvalidTokenizerException for a file that cannot be used, ChatTemplateException for a template that cannot be
     * parsed.
     */
    public static Optional<Tokenizer> open(Path modelDirectory) {
        if (!Files.exists(modelDirectory.resolve(TokenizerFiles.TOKENIZER))) {
            return Optional.empty();
        }
        return Optional.of(new Tokenizer(new TokenizerFiles(modelDirectory)));
    }

    /**
     * The ids of a text.
     *
     * @param addSpecialTokens whether the tokenizer adds what it puts around every text, such as a BOS token
     * @param parseSpecialTokens whether the texts of control tokens become these tokens; false for text from outside
     */
    public int[] encode(String text, boolean addSpecialTokens, boolean parseSpecialTokens) {
        return (parseSpecialTokens ? original : guarded).encode(text, addSpecialTokens);
    }

    /** Whether a control token's text occurs, so that encode's answers differ with parseSpecialTokens. */
    public boolean containsSpecialTokenText(String text) {
        return control.occurIn(text);
    }

    public boolean hasChatTemplate() {
        return chatTemplate != null;
    }

    /**
     * The ids of a chat, rendered by the model's template and followed by what opens the assistant's answer. Throws
     * ChatTemplateException when the template refuses the messages or there is none.
     */
    public int[] encodeChat(List<ChatMessage> messages) {
        if (chatTemplate == null) {
            throw new ChatTemplateException("the model has no chat template: neither " + TokenizerFiles.TEMPLATE
                    + " nor chat_template in " + TokenizerFiles.CONFIG
                    + "; send \"prompt\" or \"prompt_token_ids\" instead of \"messages\", or add the template");
        }
        return guarded.encode(control.guard(chatTemplate.render(messages, true)), false);
    }

    /**
     * The text of ids; ids outside the vocabulary add nothing, ill-formed UTF-8 reads as U+FFFD. skipSpecialTokens
     * leaves out special tokens.
     */
    public String decode(int[] ids, boolean skipSpecialTokens) {
        return decode(ids, 0, ids.length, skipSpecialTokens);
    }

    /** Starts the incremental decoding of one sample. */
    public TextStream newTextStream(boolean skipSpecialTokens) {
        return new TextStream(this, skipSpecialTokens);
    }

    /** One more than the largest id. */
    public int vocabSize() {
        return special.length;
    }

    String decode(int[] ids, int from, int to, boolean skipSpecialTokens) {
        return original.decode(ids, from, to, skipSpecialTokens);
    }

    /** The bytes of each token, or null when the decoder is none of the byte-level kind. */
    ByteLevelTokens byteLevelTokens() {
        return byteLevel;
    }

    boolean isSpecial(int id) {
        return id >= 0 && id < special.length && special[id];
    }

    @Override
    public void close() {
        original.close();
        guarded.close();
    }

    private static NativeTokenizer open(TokenizerFiles files, String json) {
        try {
            return new NativeTokenizer(json);
        } catch (RuntimeException e) {
            throw new InvalidTokenizerException(
                    files.tokenizerFile() + " is refused by the tokenizers library (" + e.getMessage()
                            + "); export it again with tokenizers 0.21 or use the publisher's file",
                    e);
        }
    }

    private static boolean[] specialById(TokenizerFiles files, Map<String, Integer> vocabulary) {
        int largest = vocabulary.values().stream().mapToInt(id -> id).max().orElse(-1);
        for (JsonNode token : files.addedTokens()) {
            largest = Math.max(largest, token.path("id").asInt());
        }
        boolean[] special = new boolean[largest + 1];
        for (JsonNode token : files.addedTokens()) {
            special[token.path("id").asInt()] |= token.path("special").asBoolean();
        }
        return special;
    }

    private static ByteLevelTokens byteLevelTokens(
            TokenizerFiles files, Map<String, Integer> vocabulary, boolean[] special) {
        JsonNode decoder = files.tokenizer().path("decoder");
        if (decoder.path("type").asText().equals("Sequence")
                && decoder.path("decoders").size() == 1) {
            decoder = decoder.path("decoders").get(0);
        }
        if (!decoder.path("type").asText().equals("ByteLevel")) {
            return null;
        }
        ByteLevelTokens tokens = new ByteLevelTokens(special.length);
        vocabulary.forEach((token, id) -> tokens.put(id, token, special[id]));
        for (JsonNode token : files.addedTokens()) {
            int id = token.path("id").asInt();
            tokens.put(id, token.path("content").asText(), special[id]);
        }
        return tokens;
    }

    private static ControlTokens controlTokens(TokenizerFiles files) {
        ControlTokens control = new ControlTokens();
        for (JsonNode token : files.addedTokens()) {
            String text = token.path("content").asText();
            boolean steers = token.path("special").asBoolean()
                    || looksLikeMarker(text)
                            && files.chatTemplate() != null
                            && files.chatTemplate().contains(text);
            if (steers && !text.isEmpty()) {
                control.add(
                        text,
                        token.path("id").asInt(),
                        token.path("normalized").asBoolean(),
                        token.path("single_word").asBoolean());
            }
        }
        return control;
    }

    /** Some models leave the "special" flag off tokens that structure their chats; runs of spaces are no such token. */
    private static boolean looksLikeMarker(String text) {
        return !text.isEmpty() && isBracket(text.charAt(0)) && isBracket(text.charAt(text.length() - 1));
    }

    private static boolean isBracket(char c) {
        return !Character.isLetterOrDigit(c) && !Character.isWhitespace(c);
    }

    /** The stand-ins must give the tokens they stand for: what a normaliser does to them is not for us to know. */
    private void checkStandIns(TokenizerFiles files) {
        for (ControlTokens.ControlToken token : control.tokens()) {
            int[] alone = guarded.encode(token.standIn(), false);
            int[] amid = guarded.encode("a" + token.standIn() + "a", false);
            boolean found = Arrays.stream(amid).filter(id -> id == token.id()).count() == 1;
            if (!found || !Arrays.equals(alone, new int[] {token.id()})) {
                close();
                throw new InvalidTokenizerException(files.tokenizerFile() + ": added token \"" + token.text()
                        + "\" with id " + token.id() + " is encoded as " + Arrays.toString(alone)
                        + " alone and as " + Arrays.toString(amid)
                        + " between two letters; correct its id and its normalized flag in added_tokens");
            }
        }
    }
}
