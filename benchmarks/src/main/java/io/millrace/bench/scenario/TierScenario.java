package io.millrace.bench.scenario;

import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Set;

/**
 * The prefix-KV tier against computing alone and loading alone: the published tables on virtual time, the same on this machine
 * with a throttled store, what an attached tier costs, what both stores read, and questions over documents through the job.
 */
public final class TierScenario implements Scenario {
    /** What can be run by itself. */
    public enum Part {
        VIRTUAL,
        REAL,
        TWIN,
        MIXED,
        OVERHEAD,
        STORES,
        FLINK;

        /** The option's spelling. */
        public String optionName() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    private final Set<Part> parts; // empty for those that go without saying

    /** @param parts empty for all; the twin's only where a report is wanted */
    public TierScenario(Set<Part> parts) {
        this.parts = Set.copyOf(parts);
    }

    @Override
    public Report run(BenchSettings settings) throws InterruptedException {
        Set<Part> chosen = parts.isEmpty() ? EnumSet.allOf(Part.class) : EnumSet.copyOf(parts);
        if (parts.isEmpty() && !settings.full()) {
            chosen.remove(Part.TWIN);
        }
        Report report = Machine.newReport("tier", settings).config("parts", chosen.toString());
        Table seconds = report.table("parts", "part", "seconds");
        for (Part part : chosen) {
            long start = System.nanoTime();
            run(part, settings, report);
            seconds.add(part.optionName(), (System.nanoTime() - start) / 1e9);
        }
        return report;
    }

    private static void run(Part part, BenchSettings settings, Report report) throws InterruptedException {
        switch (part) {
            case VIRTUAL -> new TierVirtualPart(settings, report).run();
            case REAL -> TierRealPart.ofModel(settings, report).run();
            case TWIN -> TierRealPart.ofMultiHeadTwin(settings, report).run();
            case MIXED -> new TierMixedPart(settings, report).run();
            case OVERHEAD -> new TierOverheadPart(settings, report).run();
            case STORES -> new TierStoresPart(settings, report).run();
            case FLINK -> new TierFlinkPart(settings, report).run();
        }
    }
}
