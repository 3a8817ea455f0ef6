package io.millrace.job.progress;

import io.millrace.operators.inference.JobCounts;
import java.io.PrintStream;
import java.util.Locale;
import java.util.function.LongSupplier;

/**
 * Shows how far a job is: requests done of all, tokens per second, running and waiting sequences, KV use, time left. On a
 * terminal it rewrites one line, elsewhere it prints a line every few seconds. One thread at a time.
 */
public final class Progress {

    private static final long TERMINAL_PERIOD_NANOS = 200_000_000L;
    private static final long PLAIN_PERIOD_NANOS = 5_000_000_000L;
    /** Rates are of this much of the past, so that they follow the load. */
    private static final long RATE_WINDOW_NANOS = 10_000_000_000L;

    private final PrintStream out;
    private final boolean terminal;
    private final long numTotal;
    private final LongSupplier nanoClock;
    private final RateWindow tokens = new RateWindow(RATE_WINDOW_NANOS);
    private final RateWindow requests = new RateWindow(RATE_WINDOW_NANOS);
    private long lastShownNanos;
    private boolean shown;
    private int lineLength;
    private String lastLine = "";

    /**
     * @param out where to, usually standard error
     * @param terminal whether lines can be rewritten there
     * @param numTotal requests expected in all, or -1 where nobody knows
     */
    public Progress(PrintStream out, boolean terminal, long numTotal) {
        this(out, terminal, numTotal, System::nanoTime);
    }

    Progress(PrintStream out, boolean terminal, long numTotal, LongSupplier nanoClock) {
        this.out = out;
        this.terminal = terminal;
        this.numTotal = numTotal;
        this.nanoClock = nanoClock;
    }

    /** Takes in new counts and shows them if it is time to. */
    public void update(JobCounts counts) {
        long now = nanoClock.getAsLong();
        tokens.add(now, counts.numGeneratedTokens());
        requests.add(now, counts.numCompleted() + counts.numFailed());
        if (!shown || now - lastShownNanos >= (terminal ? TERMINAL_PERIOD_NANOS : PLAIN_PERIOD_NANOS)) {
            // Where lines cannot be rewritten, an idle stream does not say the same thing for ever.
            if (terminal || !line(counts).equals(lastLine)) {
                show(counts);
            }
            lastShownNanos = now;
            shown = true;
        }
    }

    /** Shows the last counts whatever the time, and ends the line. */
    public void finish(JobCounts counts) {
        long now = nanoClock.getAsLong();
        tokens.add(now, counts.numGeneratedTokens());
        requests.add(now, counts.numCompleted() + counts.numFailed());
        if (terminal || !line(counts).equals(lastLine)) {
            show(counts);
        }
        endLine();
    }

    /** Prints a line of its own, above the progress line. */
    public void say(String line) {
        clearLine();
        out.println(line);
    }

    /** Leaves the last shown state standing and goes to the next line. */
    public void endLine() {
        if (terminal && lineLength > 0) {
            out.println();
            lineLength = 0;
        }
    }

    /** The line for these counts. */
    String line(JobCounts counts) {
        long numDone = counts.numCompleted() + counts.numFailed();
        StringBuilder line = new StringBuilder();
        line.append(
                numTotal < 0
                        ? String.format(Locale.ROOT, "%,d done", numDone)
                        : String.format(Locale.ROOT, "%,d/%,d done", numDone, numTotal));
        if (counts.numFailed() > 0) {
            line.append(String.format(Locale.ROOT, " (%,d failed)", counts.numFailed()));
        }
        line.append(String.format(
                Locale.ROOT,
                " | %,.0f tokens/s | %d running, %d waiting | KV %.0f %%",
                tokens.perSecond(),
                counts.numRunningSequences(),
                counts.numWaitingSequences(),
                100 * counts.kvCacheUsage()));
        double requestsPerSecond = requests.perSecond();
        // Bad records fail at once and say nothing about how long the others take.
        if (numTotal > numDone && counts.numCompleted() > 0 && requestsPerSecond > 0) {
            line.append(" | ")
                    .append(timeLeft((numTotal - numDone) / requestsPerSecond))
                    .append(" left");
        }
        return line.toString();
    }

    static String timeLeft(double seconds) {
        long whole = (long) Math.ceil(seconds);
        if (whole < 60) {
            return whole + " s";
        }
        return whole < 3600
                ? "%d:%02d min".formatted(whole / 60, whole % 60)
                : "%d:%02d h".formatted(whole / 3600, whole / 60 % 60);
    }

    private void show(JobCounts counts) {
        String line = line(counts);
        lastLine = line;
        if (terminal) {
            out.print("\r" + line + " ".repeat(Math.max(0, lineLength - line.length())));
            out.flush();
            lineLength = line.length();
        } else {
            out.println(line);
        }
    }

    private void clearLine() {
        if (terminal && lineLength > 0) {
            out.print("\r" + " ".repeat(lineLength) + "\r");
            lineLength = 0;
        }
    }
}
