package io.millrace.job.progress;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.operators.inference.JobCounts;
import io.millrace.operators.inference.TierCounts;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ProgressTest {

    private final ByteArrayOutputStream printed = new ByteArrayOutputStream();
    private long nanos;

    private Progress progress(boolean terminal, long numTotal) {
        return new Progress(new PrintStream(printed, true, StandardCharsets.UTF_8), terminal, numTotal, () -> nanos);
    }

    @Test
    void showsRatesAndTheTimeLeft() {
        Progress progress = progress(false, 100);
        progress.update(counts(0, 0, 0));
        nanos += 4_000_000_000L;
        progress.update(counts(9, 1, 2000));
        assertEquals(
                "10/100 done (1 failed) | 500 tokens/s | 7 running, 3 waiting | KV 25 % | 36 s left",
                progress.line(counts(9, 1, 2000)));
        assertEquals(1, lines(), "a plain line every five seconds only");
        nanos += 1_500_000_000L;
        progress.update(counts(20, 1, 4000));
        assertEquals(2, lines());
        progress.finish(counts(20, 1, 4000));
        assertEquals(2, lines(), "the same line is not said twice");
    }

    @Test
    void anIdleStreamIsNotReportedAgainAndAgain() {
        Progress progress = progress(false, -1);
        for (int i = 0; i < 10; i++) {
            progress.update(counts(3, 0, 60));
            nanos += 6_000_000_000L;
        }
        assertEquals(1, lines());
    }

    @Test
    void aTerminalsLineIsRewrittenWhole() {
        Progress progress = progress(true, -1);
        progress.update(counts(1000, 0, 123_456));
        nanos += 300_000_000L;
        progress.update(counts(1, 0, 0));
        progress.say("note");
        String[] shown = printed.toString(StandardCharsets.UTF_8).split("\r");
        assertTrue(shown[1].startsWith("1,000 done"), shown[1]);
        assertEquals(shown[1].length(), shown[2].length(), "a shorter line is padded");
        assertTrue(printed.toString(StandardCharsets.UTF_8).endsWith("\rnote" + System.lineSeparator()));
    }

    @Test
    void aCountThatFallsAfterARestartBeginsAnew() {
        RateWindow window = new RateWindow(10_000_000_000L);
        window.add(0, 0);
        window.add(1_000_000_000L, 100);
        assertEquals(100, window.perSecond());
        window.add(2_000_000_000L, 10);
        assertEquals(0, window.perSecond());
        window.add(4_000_000_000L, 30);
        assertEquals(10, window.perSecond());
        window.add(30_000_000_000L, 30);
        window.add(40_000_000_000L, 30);
        assertEquals(0, window.perSecond(), "the past beyond the window is forgotten");
    }

    @Test
    void timesReadAsPeopleWriteThem() {
        assertEquals("1 s", Progress.timeLeft(0.2));
        assertEquals("2:05 min", Progress.timeLeft(125));
        assertEquals("3:20 h", Progress.timeLeft(12000));
    }

    private long lines() {
        return printed.toString(StandardCharsets.UTF_8).lines().count();
    }

    private static JobCounts counts(long numCompleted, long numFailed, long numGeneratedTokens) {
        return new JobCounts(
                true,
                false,
                0,
                numCompleted,
                numFailed,
                Map.of(),
                10,
                0,
                0,
                0,
                0,
                0,
                0,
                7,
                3,
                0.25,
                0.5,
                0,
                numGeneratedTokens,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                "",
                0,
                TierCounts.NONE);
    }
}
