package io.millrace.operators.inference;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.engine.FinishReason;
import io.millrace.engine.StepReport.Finished;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.metrics.CharacterFilter;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Histogram;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricGroup;
import org.junit.jupiter.api.Test;

class EngineMetricsTest {
    private final Map<String, Metric> registered = new TreeMap<>();

    @Test
    void failuresOfOneCodeAddUpInOneCounter() {
        EngineMetrics metrics = new EngineMetrics(new Group(""), () -> null, () -> 0);
        metrics.requestFailed("invalid_json");
        metrics.requestFailed("invalid_json");
        metrics.requestFailed("prompt_too_long");
        assertEquals(3, count("vllm.request_failure_total"));
        assertEquals(2, count("vllm.error_code.invalid_json.request_failure_by_code_total"));
        assertEquals(1, count("vllm.error_code.prompt_too_long.request_failure_by_code_total"));
    }

    @Test
    void durationsAreSeconds() {
        EngineMetrics metrics = new EngineMetrics(new Group(""), () -> null, () -> 0);
        metrics.sampleFinished(
                new Finished(FinishReason.STOP, null, -1, "x", 0, 0, 250_000_000L, 500_000_000L, 2_000_000_000L), 11);
        assertEquals(0.5, mean("vllm.time_to_first_token_seconds"), 1e-9);
        assertEquals(0.25, mean("vllm.request_queue_time_seconds"), 1e-9);
        assertEquals(0.2, mean("vllm.time_per_output_token_seconds"), 1e-9);
        assertEquals(2.5, mean("vllm.e2e_request_latency_seconds"), 1e-9);
        assertEquals(11, mean("vllm.request_generation_tokens"), 1e-9);
        assertEquals(1, count("vllm.finished_reason.stop.request_success_total"));
    }

    private long count(String name) {
        assertTrue(registered.containsKey(name), name + " in " + registered.keySet());
        return ((Counter) registered.get(name)).getCount();
    }

    private double mean(String name) {
        assertTrue(registered.containsKey(name), name + " in " + registered.keySet());
        return ((Histogram) registered.get(name)).getStatistics().getMean();
    }

    /** As Flink's groups: a second metric of one name is not registered. */
    private final class Group implements MetricGroup {
        private final String scope;
        private final Map<String, Group> groups = new HashMap<>();

        Group(String scope) {
            this.scope = scope;
        }

        private <T extends Metric> T register(String name, T metric) {
            registered.putIfAbsent(scope + name, metric);
            return metric;
        }

        @Override
        public Counter counter(String name) {
            return counter(name, new org.apache.flink.metrics.SimpleCounter());
        }

        @Override
        public <C extends Counter> C counter(String name, C counter) {
            return register(name, counter);
        }

        @Override
        public <T, G extends org.apache.flink.metrics.Gauge<T>> G gauge(String name, G gauge) {
            return register(name, gauge);
        }

        @Override
        public <H extends Histogram> H histogram(String name, H histogram) {
            return register(name, histogram);
        }

        @Override
        public <M extends org.apache.flink.metrics.Meter> M meter(String name, M meter) {
            return register(name, meter);
        }

        @Override
        public MetricGroup addGroup(String name) {
            return groups.computeIfAbsent(name, n -> new Group(scope + n + "."));
        }

        @Override
        public MetricGroup addGroup(String key, String value) {
            return addGroup(key).addGroup(value);
        }

        @Override
        public String[] getScopeComponents() {
            return scope.split("\\.");
        }

        @Override
        public Map<String, String> getAllVariables() {
            return Map.of();
        }

        @Override
        public String getMetricIdentifier(String name) {
            return scope + name;
        }

        @Override
        public String getMetricIdentifier(String name, CharacterFilter filter) {
            return scope + name;
        }
    }
}
