package io.millrace.job.demo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.job.demo.DemoPrompt.Kind;
import io.millrace.tokenizer.Tokenizer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class DemoTest {

    @Test
    void passAtKIsTheShareOfDrawsWithARightOne() {
        assertEquals(0, PassAtK.estimate(8, 0, 8));
        assertEquals(1, PassAtK.estimate(8, 1, 8));
        assertEquals(0.25, PassAtK.estimate(8, 2, 1), 1e-12);
        // Of the 28 pairs out of 8, 15 hold none of the two right ones.
        assertEquals(1 - 15 / 28.0, PassAtK.estimate(8, 2, 2), 1e-12);
        assertThrows(IllegalArgumentException.class, () -> PassAtK.estimate(4, 1, 5));
    }

    @Test
    void promptsAreOfAllKindsAndFormsTheSameEveryTime() {
        List<DemoPrompt> prompts = prompts();
        assertEquals(prompts, prompts());
        assertEquals(316, prompts.size());
        assertEquals(
                316, new HashSet<>(prompts.stream().map(DemoPrompt::requestId).toList()).size());
        assertEquals(
                6, prompts.stream().filter(prompt -> prompt.kind() == Kind.BAD).count());
        for (String form : List.of("\"messages\"", "\"prompt\"", "\"prompt_token_ids\"")) {
            assertTrue(
                    prompts.stream()
                                    .filter(prompt -> prompt.json().contains(form))
                                    .count()
                            > 50,
                    form);
        }
        assertTrue(prompts.stream()
                .filter(prompt -> prompt.kind() == Kind.ARITHMETIC)
                .allMatch(prompt -> prompt.numSamples() == 8 && prompt.answer().isPresent()));
    }

    @Test
    void anAnswerIsWhatFollowsTheMark() {
        DemoPrompt prompt = new DemoPrompt("a", Kind.ARITHMETIC, "1 + 2", Optional.of("3"), 1, "{}");
        assertTrue(prompt.isRight("1 + 2 = 3\n#### 3"));
        assertTrue(prompt.isRight(" 3 "));
        assertFalse(prompt.isRight("1 + 2 = 3\n#### 33"));
    }

    @Test
    void whatIsLostRepeatedOrOnTheWrongSideIsFound() {
        DemoPrompt good = new DemoPrompt("a", Kind.STORY, "q", Optional.empty(), 2, "{\"request_id\":\"a\"}");
        DemoPrompt bad = new DemoPrompt("b", Kind.BAD, "q", Optional.empty(), 0, "{bad");
        List<byte[]> completions = new ArrayList<>(List.of(
                bytes("{\"request_id\":\"a\",\"index\":0,\"text\":\"x\"}"),
                bytes("{\"request_id\":\"a\",\"index\":1,\"text\":\"y\"}")));
        List<byte[]> letters = List.of(
                bytes("{\"request_id\":\"prompts-0-7\",\"original\":\"{bad\",\"error\":{\"code\":\"invalid_json\"}}"));
        assertEquals(List.of(), new DemoResults(List.of(good, bad), completions, letters).defects());
        assertEquals(
                2,
                new DemoResults(List.of(good, bad), completions, List.of())
                        .defects()
                        .size());
        assertEquals(
                2,
                new DemoResults(List.of(good, bad), completions.subList(0, 1), letters)
                        .defects()
                        .size());
        completions.add(completions.get(0));
        assertEquals(
                List.of("request a index 0 came out twice"),
                new DemoResults(List.of(good, bad), completions, letters).defects());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static List<DemoPrompt> prompts() {
        try (Tokenizer tokenizer =
                Tokenizer.open(Path.of("..", "models", "millrace-tiny")).orElseThrow()) {
            return DemoPrompts.make(tokenizer, 2048, 7);
        }
    }
}
