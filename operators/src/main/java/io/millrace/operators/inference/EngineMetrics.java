package io.millrace.operators.inference;

import io.millrace.engine.EngineStats;
import io.millrace.engine.FinishReason;
import io.millrace.engine.StepReport.Finished;
import java.util.EnumMap;
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
    private static final double NANOS_PER_MICRO = 1e3;

    private final Map<FinishReason, Counter> requestSuccess = new EnumMap<>(FinishReason.class);
    private final Counter requestFailures;
    private final MetricGroup group;
    private final Histogram timeToFirstToken;
    private final Histogram timePerOutputToken;
    private final Histogram queueTime;
    private final Histogram endToEndLatency;
    private final Histogram generationTokens;

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
        // Flink's histograms hold longs: the unit is in the name instead of vLLM's seconds.
        timeToFirstToken = histogram("time_to_first_token_microseconds");
        timePerOutputToken = histogram("time_per_output_token_microseconds");
        queueTime = histogram("request_queue_time_microseconds");
        endToEndLatency = histogram("e2e_request_latency_microseconds");
        generationTokens = histogram("request_generation_tokens");
    }

    void sampleFinished(Finished finished, int numTokens) {
        requestSuccess.get(finished.reason()).inc();
        timeToFirstToken.update(micros(finished.firstTokenNanos()));
        queueTime.update(micros(finished.queueNanos()));
        endToEndLatency.update(micros(finished.firstTokenNanos() + finished.decodeNanos()));
        generationTokens.update(numTokens);
        if (numTokens > 1) {
            timePerOutputToken.update(micros(finished.decodeNanos() / (numTokens - 1)));
        }
    }

    void requestFailed(String code) {
        requestFailures.inc();
        group.addGroup("error_code", code)
                .counter("request_failure_by_code_total")
                .inc();
    }

    private static long micros(long nanos) {
        return Math.round(nanos / NANOS_PER_MICRO);
    }

    private <T> void gauge(String name, Supplier<T> value) {
        group.gauge(name, (Gauge<T>) value::get);
    }

    private void total(String name, Supplier<EngineStats> stats, ToLongFunction<EngineStats> figure) {
        group.gauge(name, (Gauge<Long>) () -> figure.applyAsLong(stats.get()));
    }

    private Histogram histogram(String name) {
        return group.histogram(name, new DescriptiveStatisticsHistogram(HISTOGRAM_WINDOW));
    }
}
