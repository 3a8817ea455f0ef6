package io.millrace.job.progress;

import io.millrace.operators.inference.JobCounts;
import io.millrace.operators.inference.TierCounts;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** What the prefix tier did in a start, for people and for summary files. */
public final class TierSummary {

    private TierSummary() {}

    /** One line; only of use where {@link TierCounts#isUsed()}. */
    public static String line(JobCounts counts) {
        TierCounts tier = counts.tier();
        StringBuilder line = new StringBuilder();
        line.append(String.format(
                Locale.ROOT,
                "prefix tier: %,d of %,d prompt tokens asked for were stored; %,d loaded and %,d computed meanwhile, %s read%s;"
                        + " about %.1f s of computing saved; %s written, %s stored; 99 of 100 mails waited less than %.1f ms",
                tier.numHitTokens(),
                tier.numQueriedTokens(),
                tier.numLoadedTokens(),
                tier.numComputedTokens(),
                megabytes(tier.numBytesRead()),
                rate(tier),
                tier.savedNanos() / 1e9,
                megabytes(tier.numBytesWritten()),
                megabytes(tier.numBytesStored()),
                counts.mailLatencyP99Nanos() / 1e6));
        if (tier.numFailures() > 0) {
            line.append(String.format(Locale.ROOT, "; %,d reads or writes failed, see the log", tier.numFailures()));
        }
        return line.toString();
    }

    /** Figures under the summary file's names. */
    public static Map<String, Object> figures(JobCounts counts) {
        TierCounts tier = counts.tier();
        Map<String, Object> figures = new LinkedHashMap<>();
        figures.put("queried_tokens", tier.numQueriedTokens());
        figures.put("hit_tokens", tier.numHitTokens());
        figures.put("missed_tokens_by_reason", new TreeMap<>(tier.numMissedTokens()));
        figures.put("loaded_tokens", tier.numLoadedTokens());
        figures.put("computed_beside_loads_tokens", tier.numComputedTokens());
        figures.put("saved_seconds", Math.round(tier.savedNanos() / 1e6) / 1e3);
        figures.put("bytes_read", tier.numBytesRead());
        figures.put("read_seconds", Math.round(tier.readNanos() / 1e6) / 1e3);
        figures.put("bytes_written", tier.numBytesWritten());
        figures.put("bytes_stored", tier.numBytesStored());
        figures.put("chunks_stored", tier.numChunksStored());
        figures.put("chunks_evicted", tier.numChunksEvicted());
        figures.put("chunks_dropped", tier.numChunksDropped());
        figures.put("failures", tier.numFailures());
        figures.put("mail_latency_p99_ms", Math.round(counts.mailLatencyP99Nanos() / 1e3) / 1e3);
        return figures;
    }

    private static String rate(TierCounts tier) {
        return tier.readNanos() == 0
                ? ""
                : " at " + megabytes(Math.round(tier.numBytesRead() / (tier.readNanos() / 1e9))) + "/s";
    }

    private static String megabytes(long bytes) {
        return String.format(Locale.ROOT, "%,.1f MB", bytes / 1e6);
    }
}
