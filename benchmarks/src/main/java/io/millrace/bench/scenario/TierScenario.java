package io.millrace.bench.scenario;

import io.millrace.bench.report.Report;
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
        MIXED,
        OVERHEAD,
        STORES,
        FLINK;

        /** The option's spelling. */
        public String optionName() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    private final Set<Part> parts;

    public TierScenario(Set<Part> parts) {
        this.parts = Set.copyOf(parts);
    }

    @Override
    public Report run(BenchSettings settings) throws InterruptedException {
        Report report = Machine.newReport("tier", settings)
                .config("parts", parts.stream().sorted().toList().toString());
        if (parts.contains(Part.VIRTUAL)) {
            new TierVirtualPart(settings, report).run();
        }
        if (parts.contains(Part.REAL)) {
            new TierRealPart(settings, report).run();
        }
        if (parts.contains(Part.MIXED)) {
            new TierMixedPart(settings, report).run();
        }
        if (parts.contains(Part.OVERHEAD)) {
            new TierOverheadPart(settings, report).run();
        }
        if (parts.contains(Part.STORES)) {
            new TierStoresPart(settings, report).run();
        }
        if (parts.contains(Part.FLINK)) {
            new TierFlinkPart(settings, report).run();
        }
        return report;
    }
}
