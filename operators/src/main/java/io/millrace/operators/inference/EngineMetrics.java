package io.millrace.operators.inference;

import io.millrace.engine.EngineStats;
import io.millrace.engine.FinishReason;
import io.millrace.engine.StepReport.Finished;
import io.millrace.prefix.TierMiss;
import io.millrace.prefix.TierStats;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.Histogram;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.metrics.DescriptiveStatisticsHistogram;

/** The engine's figures under vLLM's names in the operator's metric group. Registered once; read by reporters. */
final class EngineMetrics {
    private static final int HISTOGRAM_WINDOW = 1_000;
    private static final double NANOS_PER_SECOND = 1e9;

    private final Map<FinishReason, Counter> requestSuccess = new EnumMap<>(FinishReason.class);
    private final Counter requestFailures;
    private final Map<String, Counter> failuresByCode = new HashMap<>();
    private final MetricGroup group;
    private final Histogram timeToFirstToken;
    private final Histogram timePerOutputToken;
    private final Histogram queueTime;
    private final Histogram endToEndLatency;
    private final Histogram generationTokens;
    private final SecondsHistogram mailLatency = new SecondsHistogram(HISTOGRAM_WINDOW);
    private final Histogram tierMail;

    /** @param stats the engine's latest counters; @param numInFlight requests in the ledger or waiting */
    EngineMetrics(MetricGroup parent, Supplier<EngineStats> stats, Supplier<Integer> numInFlight) {
        group = parent.addGroup("vllm");
        gauge("num_requests_running", () -> stats.get().numRunningSequences());
        gauge("num_requests_waiting", () -> stats.get().numWaitingSequences());
        gauge("num_requests_in_flight", numInFlight::get);
        gauge("kv_cache_usage_perc", () -> stats.get().kvCacheUsage());
        total("num_preemptions_total", stats, EngineStats::numPreemptions);
        total("prefix_cache_queries", stats, EngineStats::prefixCacheQueryTokens);
        total("prefix_cache_hits", stats, EngineStats::prefixCacheHitTokens);
        total("prompt_tokens_total", stats, EngineStats::numPromptTokens);
        total("generation_tokens_total", stats, EngineStats::numGeneratedTokens);
        total("restored_tokens_total", stats, EngineStats::numRestoredTokens);
        total("num_steps_total", stats, EngineStats::numSteps);
        total("spec_decode_num_draft_tokens_total", stats, s -> s.speculation().numProposedTokens());
        total(
                "spec_decode_num_accepted_tokens_total",
                stats,
                s -> s.speculation().numAcceptedTokens());
        gauge(
                "spec_decode_draft_acceptance_rate",
                () -> stats.get().speculation().acceptanceRate());
        total("step_time_ns_total", stats, s -> s.times().totalNanos());
        total("gemm_time_ns_total", stats, s -> s.times().gemmNanos());
        total("attention_time_ns_total", stats, s -> s.times().attentionNanos());
        total("sampling_time_ns_total", stats, s -> s.times().samplingNanos());
        for (FinishReason reason : FinishReason.values()) {
            requestSuccess.put(
                    reason, group.addGroup("finished_reason", reason.wireName()).counter("request_success_total"));
        }
        requestFailures = group.counter("request_failure_total");
        timeToFirstToken = seconds("time_to_first_token_seconds");
        timePerOutputToken = seconds("time_per_output_token_seconds");
        queueTime = seconds("request_queue_time_seconds");
        endToEndLatency = seconds("e2e_request_latency_seconds");
        generationTokens =
                group.histogram("request_generation_tokens", new DescriptiveStatisticsHistogram(HISTOGRAM_WINDOW));
        group.histogram("mail_latency_seconds", mailLatency);
        tierMail = seconds("tier_mail_seconds");
        registerTier(stats);
    }

    private void registerTier(Supplier<EngineStats> stats) {
        total("tier_queries", stats, s -> s.tier().numQueriedTokens());
        total("tier_hits", stats, s -> s.tier().numHitTokens());
        total("tier_loaded_tokens_total", stats, s -> s.tier().numLoadedTokens());
        total("tier_computed_tokens_total", stats, s -> s.tier().numComputedTokens());
        total("tier_saved_time_ns_total", stats, s -> s.tier().savedNanos());
        total("tier_prefixes_total", stats, s -> s.tier().numPrefixes());
        gauge("tier_computed_share", () -> stats.get().tier().meanComputedShare());
        gauge("tier_load_bytes_per_second", () -> stats.get().tier().loadBytesPerSecond());
        gauge("tier_compute_tokens_per_second", () -> stats.get().tier().computeTokensPerSecond());
        total("tier_chunks_dropped_total", stats, s -> s.tier().numChunksDropped());
        total("tier_store_chunks", stats, s -> s.tier().store().numChunks());
        total("tier_store_bytes", stats, s -> s.tier().store().numBytes());
        total("tier_store_bytes_read_total", stats, s -> s.tier().store().numBytesRead());
        total("tier_store_bytes_written_total", stats, s -> s.tier().store().numBytesWritten());
        total("tier_store_read_time_ns_total", stats, s -> s.tier().store().readNanos());
        total("tier_store_chunks_dropped_total", stats, s -> s.tier().store().numChunksDropped());
        total("tier_store_chunks_evicted_total", stats, s -> s.tier().store().numChunksEvicted());
        total("tier_store_failures_total", stats, s -> s.tier().store().numFailures());
        for (TierMiss reason : TierMiss.values()) {
            group.addGroup("tier_miss_reason", reason.metricName()).gauge("tier_missed_tokens_total", (Gauge<Long>)
                    () -> stats.get().tier().numMissedTokens(reason));
        }
        for (TierStats.Restore kind : TierStats.Restore.values()) {
            group.addGroup("tier_restore_kind", kind.name().toLowerCase(Locale.ROOT))
                    .gauge("tier_restored_sequences_total", (Gauge<Long>)
                            () -> stats.get().tier().numRestores(kind));
        }
    }

    /** A mail from the engine waited so long for the task thread, as records and barriers do. */
    void mailTaken(long waitedNanos) {
        mailLatency.update(waitedNanos);
    }

    /** A mail of the prefix tier held the task thread so long. */
    void tierMailHeld(long nanos) {
        tierMail.update(nanos);
    }

    long mailLatencyP99Nanos() {
        return mailLatency.getCount() == 0
                ? 0
                : Math.round(NANOS_PER_SECOND * mailLatency.getStatistics().getQuantile(0.99));
    }

    void sampleFinished(Finished finished, int numTokens) {
        requestSuccess.get(finished.reason()).inc();
        timeToFirstToken.update(finished.firstTokenNanos());
        queueTime.update(finished.queueNanos());
        endToEndLatency.update(finished.firstTokenNanos() + finished.decodeNanos());
        generationTokens.update(numTokens);
        if (numTokens > 1) {
            timePerOutputToken.update(finished.decodeNanos() / (numTokens - 1));
        }
    }

    void requestFailed(String code) {
        requestFailures.inc();
        // Asked for twice, a metric of one name is a collision, and the second counter is never shown.
        failuresByCode
                .computeIfAbsent(code, c -> group.addGroup("error_code", c).counter("request_failure_by_code_total"))
                .inc();
    }

    private <T> void gauge(String name, Supplier<T> value) {
        group.gauge(name, (Gauge<T>) value::get);
    }

    private void total(String name, Supplier<EngineStats> stats, ToLongFunction<EngineStats> figure) {
        group.gauge(name, (Gauge<Long>) () -> figure.applyAsLong(stats.get()));
    }

    private Histogram seconds(String name) {
        return group.histogram(name, new SecondsHistogram(HISTOGRAM_WINDOW));
    }
}
