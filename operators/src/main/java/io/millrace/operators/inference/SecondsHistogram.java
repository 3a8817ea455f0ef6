package io.millrace.operators.inference;

import org.apache.flink.metrics.Histogram;
import org.apache.flink.metrics.HistogramStatistics;
import org.apache.flink.runtime.metrics.DescriptiveStatisticsHistogram;

/**
 * A histogram of durations, shown in seconds as vLLM shows them. Flink's histograms take whole numbers, so nanoseconds go in
 * and fractions of seconds come out of quantiles, mean and deviation; minimum and maximum, which are whole in Flink, are
 * rounded to seconds. Updated by the task thread, read by reporters.
 */
final class SecondsHistogram implements Histogram {
    private static final double NANOS_PER_SECOND = 1e9;

    private final Histogram nanos;

    /** @param windowSize the newest values that count */
    SecondsHistogram(int windowSize) {
        nanos = new DescriptiveStatisticsHistogram(windowSize);
    }

    /** @param value nanoseconds */
    @Override
    public void update(long value) {
        nanos.update(value);
    }

    @Override
    public long getCount() {
        return nanos.getCount();
    }

    @Override
    public HistogramStatistics getStatistics() {
        return new Seconds(nanos.getStatistics());
    }

    private static final class Seconds extends HistogramStatistics {
        private final HistogramStatistics nanos;

        Seconds(HistogramStatistics nanos) {
            this.nanos = nanos;
        }

        @Override
        public double getQuantile(double quantile) {
            return nanos.getQuantile(quantile) / NANOS_PER_SECOND;
        }

        @Override
        public long[] getValues() {
            long[] values = nanos.getValues();
            for (int i = 0; i < values.length; i++) {
                values[i] = rounded(values[i]);
            }
            return values;
        }

        @Override
        public int size() {
            return nanos.size();
        }

        @Override
        public double getMean() {
            return nanos.getMean() / NANOS_PER_SECOND;
        }

        @Override
        public double getStdDev() {
            return nanos.getStdDev() / NANOS_PER_SECOND;
        }

        @Override
        public long getMax() {
            return rounded(nanos.getMax());
        }

        @Override
        public long getMin() {
            return rounded(nanos.getMin());
        }

        private static long rounded(long value) {
            return Math.round(value / NANOS_PER_SECOND);
        }
    }
}
