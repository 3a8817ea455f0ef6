package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.sampling.SamplingParams;
import io.millrace.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Ends of samples, on the demo model's byte-level tokenizer. */
class SampleOutputTest {
    private static final int EOS = 2;
    private static final int[] EOS_IDS = {EOS, 999};

    private static Tokenizer tokenizer;

    @BeforeAll
    static void open() {
        tokenizer = Tokenizer.open(Path.of("../models/millrace-tiny")).orElseThrow();
    }

    @AfterAll
    static void close() {
        tokenizer.close();
    }

    private static SamplingParams.Builder params() {
        return SamplingParams.builder().maxTokens(1000);
    }

    /** Feeds one token a character, so that every stop text crosses token borders; returns how many were taken. */
    private static int feed(SampleOutput output, String text) {
        int count = 0;
        for (int codePoint : text.codePoints().toArray()) {
            for (int id : tokenizer.encode(Character.toString(codePoint), false, false)) {
                count++;
                if (output.append(id)) {
                    return count;
                }
            }
        }
        return count;
    }

    private static SampleOutput output(SamplingParams params) {
        int[] stopIds =
                params.stopTokenIds().stream().mapToInt(Integer::intValue).toArray();
        return new SampleOutput(
                params, params.ignoreEos() ? new int[0] : EOS_IDS, stopIds, params.maxTokens(), tokenizer);
    }

    @Test
    void stopTextIsTrimmedExactly() {
        SampleOutput output = output(params().stop(List.of("END", "\n\n")).build());
        assertEquals(8, feed(output, "abEN ENDing"));
        assertEquals(FinishReason.STOP, output.reason());
        assertEquals("END", output.stopText());
        assertEquals(-1, output.stopTokenId());
        assertEquals("abEN ", output.text());
    }

    @Test
    void stopTextWithinALongTokenCutsTheToken() {
        int[] ids = tokenizer.encode("the answer", false, false);
        SampleOutput output = output(params().stop(List.of("nsw")).build());
        boolean ended = false;
        for (int id : ids) {
            ended = ended || output.append(id);
        }
        assertTrue(ended);
        assertEquals("the a", output.text());
    }

    @Test
    void stopTextIsKeptWhenAskedFor() {
        SampleOutput output = output(
                params().stop(List.of("END")).includeStopStrInOutput(true).build());
        feed(output, "abENDing");
        assertEquals("abEND", output.text());
    }

    @Test
    void minTokensHoldsOffStopTextsThatEndWithinThem() {
        SampleOutput output = output(params().stop(List.of("ab")).minTokens(3).build());
        assertEquals(6, feed(output, "abcdab"), "the first ends within three tokens and counts for nothing");
        assertEquals("abcd", output.text());
        SampleOutput crossing =
                output(params().stop(List.of("bcd")).minTokens(3).build());
        assertEquals(4, feed(crossing, "abcd"), "it ends beyond three tokens");
        assertEquals("a", crossing.text());
    }

    @Test
    void eosEndsAndHasNoText() {
        for (int id : EOS_IDS) {
            SampleOutput output = output(params().skipSpecialTokens(false).build());
            feed(output, "ab");
            assertTrue(output.append(id));
            assertEquals(FinishReason.STOP, output.reason());
            assertNull(output.stopText());
            assertEquals(-1, output.stopTokenId());
            assertEquals("ab", output.text());
        }
    }

    @Test
    void ignoredEosGoesOn() {
        SampleOutput output = output(params().ignoreEos(true).maxTokens(3).build());
        assertFalse(output.append(EOS));
        feed(output, "ab");
        assertEquals(FinishReason.LENGTH, output.reason());
        assertEquals("ab", output.text());
    }

    @Test
    void stopIdIsReportedAndInTheTextOnlyWhenAskedFor() {
        int id = tokenizer.encode("x", false, false)[0];
        for (boolean include : new boolean[] {false, true}) {
            SampleOutput output = output(params().stopTokenIds(List.of(id))
                    .includeStopStrInOutput(include)
                    .build());
            assertEquals(3, feed(output, "abxcd"));
            assertEquals(id, output.stopTokenId());
            assertEquals(include ? "abx" : "ab", output.text());
        }
    }

    @Test
    void incompleteCharactersFlushAtTheEnd() {
        int[] ids = tokenizer.encode("€", false, false);
        assertTrue(ids.length > 1, Arrays.toString(ids));
        SampleOutput whole = output(params().maxTokens(ids.length).build());
        for (int id : ids) {
            whole.append(id);
        }
        assertEquals("€", whole.text());
        SampleOutput cut = output(params().maxTokens(ids.length - 1).build());
        for (int i = 0; i < ids.length - 1; i++) {
            cut.append(ids[i]);
        }
        assertEquals(FinishReason.LENGTH, cut.reason());
        assertEquals("\uFFFD", cut.text());
        SampleOutput aborted = output(params().build());
        aborted.append(ids[0]);
        assertEquals("", aborted.text(), "held back while it may become a character");
        aborted.abort();
        assertEquals("\uFFFD", aborted.text());
        assertEquals(FinishReason.ABORT, aborted.reason());
    }

    @Test
    void textIsNullWithoutATokenizer() {
        SampleOutput output = new SampleOutput(params().maxTokens(1).build(), EOS_IDS, new int[0], 1, null);
        assertTrue(output.append(5));
        assertNull(output.text());
    }
}
