package io.millrace.job.batch;

import io.millrace.job.progress.TierSummary;
import io.millrace.operators.inference.JobCounts;
import java.util.LinkedHashMap;
import java.util.Map;

/** The batch's figures as they are written to the summary file. */
final class Summary {

    private Summary() {}

    /** Counts are of requests, tokens of completions; seconds, restored tokens and peaks are over all starts of the batch. */
    static Map<String, Object> of(JobCounts counts, RunTotals totals) {
        Map<String, Object> summary = new LinkedHashMap<>();
        summary.put("input_records", counts.numRecordsIn());
        summary.put("completed", counts.numCompleted());
        summary.put("failed", counts.numFailed());
        summary.put("failed_by_code", new java.util.TreeMap<>(counts.failedByCode()));
        summary.put("completions", counts.numCompletions());
        summary.put("prompt_tokens", counts.numPromptTokens());
        summary.put("cached_tokens", counts.numCachedTokens());
        summary.put("tier_tokens", counts.tier().numTierTokens());
        summary.put("completion_tokens", counts.numCompletionTokens());
        Map<String, Object> figures = totals.figures();
        summary.putAll(figures);
        double seconds = Math.max(1e-3, totals.seconds());
        summary.put("completion_tokens_per_second", perSecond(counts.numCompletionTokens(), seconds));
        summary.put("tokens_per_second", perSecond(counts.numCompletionTokens() + counts.numPromptTokens(), seconds));
        if (counts.tier().isUsed()) {
            summary.put("tier", TierSummary.figures(counts));
        }
        summary.put("numeric_fingerprint", counts.numericFingerprint());
        return summary;
    }

    private static double perSecond(long count, double seconds) {
        return Math.round(10 * count / seconds) / 10.0;
    }
}
