package io.millrace.bench.scenario;

import io.millrace.engine.EngineConfig;
import io.millrace.engine.EngineStats;
import io.millrace.engine.InferenceEngine;
import io.millrace.engine.StepListener;
import io.millrace.engine.StepReport;
import io.millrace.model.InvalidModelException;
import io.millrace.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;

/** The engine on its own thread, fed by one that tokenises: what the job does, without the job. One thread drives it. */
final class BareEngine implements AutoCloseable {
    private static final long SAMPLE_MILLIS = 500; // as often as the job reports its counts

    private final Tokenizer tokenizer;
    private final InferenceEngine engine;
    private final AtomicLong numCompleted = new AtomicLong();
    private volatile Throwable failure;

    BareEngine(EngineConfig config) {
        tokenizer = Tokenizer.open(Path.of(config.model()))
                .orElseThrow(() -> new InvalidModelException(config.model()
                        + " has no tokenizer.json: this scenario tokenises on both sides; take a named shape"));
        engine = InferenceEngine.open(config);
        engine.start("bench-engine", new StepListener() {
            @Override
            public void onStep(StepReport report) {
                if (!report.failures().isEmpty()) {
                    failure = new IllegalStateException("the engine refused a request: "
                            + report.failures().get(0).message());
                }
                numCompleted.addAndGet(report.deltas().stream()
                        .filter(delta -> delta.finished() != null)
                        .count());
            }

            @Override
            public void onEngineDeath(Throwable cause) {
                failure = cause;
            }
        });
    }

    /** Serves requests until slots stand empty, and cancels the rest; returns the steady window. */
    SteadyWindow serve(ServedRequests requests, int numSlots) throws InterruptedException {
        long completedBefore = numCompleted.get();
        EngineStats before = engine.stats();
        SteadyWindow window = new SteadyWindow(requests.count(), numSlots);
        Thread feeder = new Thread(
                () -> {
                    for (int i = 0; i < requests.count(); i++) {
                        engine.submit(requests.request(i, tokenizer));
                    }
                },
                "bench-feeder");
        feeder.setDaemon(true);
        feeder.start();
        long completed;
        do {
            Thread.sleep(SAMPLE_MILLIS);
            if (failure != null) {
                throw new IllegalStateException("the bare engine failed: " + failure.getMessage(), failure);
            }
            completed = numCompleted.get() - completedBefore;
            EngineStats now = engine.stats();
            window.observe(now.nanos(), completed, now.numGeneratedTokens() - before.numGeneratedTokens());
        } while (!window.isOver() && completed < requests.count());
        feeder.join();
        for (int i = 0; i < requests.count(); i++) {
            engine.cancel(requests.id(i));
        }
        while (!engine.isIdle()) {
            Thread.sleep(1);
        }
        return window;
    }

    @Override
    public void close() {
        engine.close();
        tokenizer.close();
    }
}
