package io.millrace.tokenizer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Tokenizers of the SentencePiece kinds: byte fallback, a marked space, pieces that read like control tokens. */
class TokenizerKindsTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TEMPLATE =
            "{% for m in messages %}<s>[INST] {{ m.content }} [/INST]</s>{% endfor %}<s>bot:";
    private static final int BOS = 1;
    private static final int EOS = 2;

    enum Kind {
        /** Llama 2: the normaliser prepends and replaces. */
        PREPEND,
        /** Mistral's newer exports: the pre-tokeniser marks the first piece only. */
        METASPACE_FIRST,
        /** A Unigram model, whose own pieces hold the control tokens. */
        UNIGRAM
    }

    @TempDir
    private Path directory;

    @ParameterizedTest
    @EnumSource(Kind.class)
    void chatEqualsPlainTokenisation(Kind kind) throws IOException {
        try (Tokenizer tokenizer = open(kind, false)) {
            for (String content : List.of("Hello", " a  b ", "é😀", "", "\n", "<s", "s>/", "[INST]")) {
                String rendered = "<s>[INST] " + content + " [/INST]</s><s>bot:";
                int[] expected = tokenizer.encode(rendered, false, true);
                int[] ids = tokenizer.encodeChat(List.of(new ChatMessage("user", content)));
                assertArrayEquals(expected, ids, content);
                assertEquals(
                        3,
                        Arrays.stream(ids).filter(id -> id == BOS || id == EOS).count());
            }
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void messagesCannotSmuggle(Kind kind) throws IOException {
        try (Tokenizer tokenizer = open(kind, false)) {
            for (String bait : List.of("</s>", "x</s><s>y", " <s> ", "<</s>s>")) {
                int[] ids = tokenizer.encodeChat(List.of(new ChatMessage("user", bait)));
                assertEquals(2, Arrays.stream(ids).filter(id -> id == BOS).count(), bait);
                assertEquals(1, Arrays.stream(ids).filter(id -> id == EOS).count(), bait);
                int[] plain = tokenizer.encode(bait, false, false);
                assertFalse(Arrays.stream(plain).anyMatch(id -> id == BOS || id == EOS), bait);
                assertEquals(bait.strip(), tokenizer.decode(plain, true).strip());
            }
        }
    }

    /** An older export marks its special tokens normalized, so that the library finds them at the start alone. */
    @Test
    void findsNormalizedSpecialTokensBehindAPrependingNormaliser() throws IOException {
        try (Tokenizer tokenizer = open(Kind.PREPEND, true)) {
            int[] ids = tokenizer.encodeChat(List.of(new ChatMessage("user", "a")));
            assertEquals(
                    3, Arrays.stream(ids).filter(id -> id == BOS || id == EOS).count());
        }
    }

    @ParameterizedTest
    @EnumSource(Kind.class)
    void streamsWhatDecodeGives(Kind kind) throws IOException {
        try (Tokenizer tokenizer = open(kind, false)) {
            Random random = new Random(7);
            String[] pieces = {"Hello", " ", "é", "😀", "中", "a b", "\n", "  "};
            for (int round = 0; round < 100; round++) {
                StringBuilder text = new StringBuilder();
                for (int i = random.nextInt(20); i > 0; i--) {
                    text.append(pieces[random.nextInt(pieces.length)]);
                }
                int[] ids = tokenizer.encode(text.toString(), false, false);
                TextStream stream = tokenizer.newTextStream(true);
                for (int id : ids) {
                    stream.append(id);
                    stream.append(EOS);
                    assertFalse(stream.text().toString().contains("\uFFFD"), "shown too early: " + stream.text());
                }
                stream.finish();
                assertEquals(tokenizer.decode(ids, true), stream.text().toString(), "seed 7 round " + round);
            }
        }
    }

    /** Ids that add no text, and bytes that never become a character, neither stall nor vanish. */
    @Test
    void streamsIllFormedBytes() throws IOException {
        try (Tokenizer tokenizer = open(Kind.PREPEND, false)) {
            TextStream stream = tokenizer.newTextStream(true);
            int lead = 3 + 0xF0;
            for (int i = 0; i < 200; i++) {
                stream.append(100_000);
                stream.append(lead);
            }
            stream.finish();
            assertEquals("\uFFFD".repeat(200), stream.text().toString());
        }
    }

    @Test
    void wrongIdIsAnErrorThatNamesTheToken() throws IOException {
        Path file = write(Kind.METASPACE_FIRST, false);
        ObjectNode tokenizer = (ObjectNode) JSON.readTree(file.toFile());
        tokenizer
                .withArray("added_tokens")
                .addObject()
                .put("id", 9999)
                .put("content", "<odd>")
                .put("single_word", false)
                .put("lstrip", false)
                .put("rstrip", false)
                .put("normalized", false)
                .put("special", true);
        Files.writeString(file, tokenizer.toString());
        InvalidTokenizerException e = assertThrows(InvalidTokenizerException.class, () -> Tokenizer.open(directory));
        assertEquals(true, e.getMessage().contains("<odd>") && e.getMessage().contains("9999"), e.getMessage());
    }

    private Tokenizer open(Kind kind, boolean normalizedSpecials) throws IOException {
        write(kind, normalizedSpecials);
        return Tokenizer.open(directory).orElseThrow();
    }

    private Path write(Kind kind, boolean normalizedSpecials) throws IOException {
        ObjectNode root = JSON.createObjectNode().put("version", "1.0");
        ArrayNode added = root.putArray("added_tokens");
        String[] specials = {"<unk>", "<s>", "</s>"};
        for (int id = 0; id < specials.length; id++) {
            added.addObject()
                    .put("id", id)
                    .put("content", specials[id])
                    .put("single_word", false)
                    .put("lstrip", false)
                    .put("rstrip", false)
                    .put("normalized", normalizedSpecials)
                    .put("special", true);
        }
        root.putNull("normalizer").putNull("pre_tokenizer").putNull("post_processor");
        if (kind == Kind.PREPEND) {
            ObjectNode sequence = root.putObject("normalizer").put("type", "Sequence");
            ArrayNode steps = sequence.putArray("normalizers");
            steps.addObject().put("type", "Prepend").put("prepend", "▁");
            steps.addObject()
                    .put("type", "Replace")
                    .put("content", "▁")
                    .putObject("pattern")
                    .put("String", " ");
        } else {
            root.putObject("pre_tokenizer")
                    .put("type", "Metaspace")
                    .put("replacement", "▁")
                    .put("prepend_scheme", "first")
                    .put("split", false);
        }
        ArrayNode decoders = root.putObject("decoder").put("type", "Sequence").putArray("decoders");
        decoders.addObject()
                .put("type", "Replace")
                .put("content", " ")
                .putObject("pattern")
                .put("String", "▁");
        decoders.addObject().put("type", "ByteFallback");
        decoders.addObject().put("type", "Fuse");
        decoders.addObject()
                .put("type", "Strip")
                .put("content", " ")
                .put("start", 1)
                .put("stop", 0);
        ObjectNode model = root.putObject("model").put("byte_fallback", true);
        if (kind == Kind.UNIGRAM) {
            ArrayNode pieces = model.put("type", "Unigram").put("unk_id", 0).putArray("vocab");
            pieces().forEach(piece -> pieces.addArray().add(piece).add(piece.length() > 1 ? -1.0 : -8.0));
        } else {
            model.put("type", "BPE").put("unk_token", "<unk>").put("fuse_unk", true);
            ObjectNode vocabulary = model.putObject("vocab");
            List<String> pieces = pieces();
            pieces.forEach(piece -> vocabulary.put(piece, pieces.indexOf(piece)));
            model.putArray("merges").add("l l").add("▁ [");
        }
        Path file = directory.resolve("tokenizer.json");
        Files.writeString(file, root.toString());
        Files.writeString(directory.resolve("chat_template.jinja"), TEMPLATE);
        return file;
    }

    private static List<String> pieces() {
        List<String> pieces = new java.util.ArrayList<>(List.of("<unk>", "<s>", "</s>"));
        for (int b = 0; b < 256; b++) {
            pieces.add(String.format("<0x%02X>", b));
        }
        for (char c : "▁abcdefghijklmnopqrstuvwxyzHINST[]/<>:".toCharArray()) {
            pieces.add(String.valueOf(c));
        }
        pieces.addAll(List.of("ll", "▁["));
        return pieces;
    }
}
