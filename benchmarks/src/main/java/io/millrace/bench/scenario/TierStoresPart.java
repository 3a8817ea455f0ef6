package io.millrace.bench.scenario;

import io.millrace.bench.ceiling.PageCache;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.job.cluster.ClusterOptions;
import io.millrace.job.cluster.EmbeddedCluster;
import io.millrace.operators.tier.TierKind;
import io.millrace.prefix.TierConfig;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.Random;
import org.apache.flink.api.common.JobID;

/** What both stores write and read in chunks of this model's KV, cold and warm, beside a plain file. No throttle, no engine. */
final class TierStoresPart {
    private static final int BUFFER_BYTES = 1 << 20;
    private static final long POLL_MILLIS = 50;

    private final BenchSettings settings;
    private final Report report;

    TierStoresPart(BenchSettings settings, Report report) {
        this.settings = settings;
        this.report = report;
    }

    void run() throws InterruptedException {
        long chunkBytes = TierConfig.DEFAULT_CHUNK_TOKENS * EngineSession.kvBytesPerToken(settings);
        long numBytes = settings.pick(128, 512) * (1L << 20);
        int numChunks = (int) (numBytes / chunkBytes);
        Path directory =
                settings.home().resolve("stores-" + ProcessHandle.current().pid());
        Table table = report.table(
                "store_bandwidth",
                "store",
                "chunk_mb",
                "chunks_read",
                "write_mb_per_s",
                "cold_read_mb_per_s",
                "warm_read_mb_per_s");
        try {
            Files.createDirectories(directory);
            settings.say("tier, read bandwidth: a plain file");
            add(
                    table,
                    "plain file",
                    chunkBytes,
                    numChunks,
                    plainFile(directory.resolve("plain"), chunkBytes * numChunks));
            for (TierKind kind : new TierKind[] {TierKind.STATE, TierKind.DISK}) {
                settings.say("tier, read bandwidth: store %s", kind.optionName());
                Path state = directory.resolve(kind.optionName());
                add(table, kind.optionName(), chunkBytes, numChunks, inTask(kind, state, chunkBytes, numChunks));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(directory + " could not be used: " + e.getMessage(), e);
        } finally {
            delete(directory);
        }
    }

    private static void add(Table table, String store, long chunkBytes, int numChunks, StoreBandwidth.Rates rates) {
        table.add(store, chunkBytes / 1e6, numChunks, rates.written() / 1e6, rates.cold() / 1e6, rates.warm() / 1e6);
    }

    private static StoreBandwidth.Rates plainFile(Path file, long numBytes) throws IOException {
        byte[] buffer = new byte[BUFFER_BYTES];
        new Random(1).nextBytes(buffer);
        long start = System.nanoTime();
        try (OutputStream out = Files.newOutputStream(file)) {
            for (long written = 0; written < numBytes; written += buffer.length) {
                out.write(buffer);
            }
        }
        double writeSeconds = (System.nanoTime() - start) / 1e9;
        boolean dropped = PageCache.drop(file);
        double cold = readSeconds(file, buffer);
        double warm = readSeconds(file, buffer);
        return new StoreBandwidth.Rates(
                numBytes / writeSeconds, dropped ? numBytes / cold : Double.NaN, numBytes / warm);
    }

    private static double readSeconds(Path file, byte[] buffer) throws IOException {
        long start = System.nanoTime();
        try (InputStream in = Files.newInputStream(file)) {
            while (in.read(buffer) > 0) {}
        }
        return (System.nanoTime() - start) / 1e9;
    }

    /** Inside of a task, as the job has it: keyed state can be had nowhere else. */
    private StoreBandwidth.Rates inTask(TierKind kind, Path state, long chunkBytes, int numChunks)
            throws InterruptedException {
        ClusterOptions options = new ClusterOptions(state, 1, Duration.ofMinutes(10), 0, 0, kind == TierKind.STATE);
        StoreBandwidthOperator.Plan plan = new StoreBandwidthOperator.Plan(
                kind, chunkBytes, numChunks, options.temporaryDirectory().toString());
        try (EmbeddedCluster cluster = EmbeddedCluster.start(options)) {
            JobID job = cluster.submit(
                    StoreBandwidthOperator.graph(EmbeddedCluster.newEnvironment(options), plan), Optional.empty());
            // The task would wait for a last checkpoint, which nobody needs.
            StoreBandwidth.Rates rates;
            while ((rates = StoreBandwidthOperator.takeResult()) == null) {
                Thread.sleep(POLL_MILLIS);
                if (cluster.status(job).isGloballyTerminalState()) {
                    throw cluster.failure(job, "measure again once it is mended");
                }
            }
            cluster.cancel(job);
            return rates;
        }
    }

    private static void delete(Path directory) {
        try {
            EmbeddedCluster.deleteRecursively(directory);
        } catch (IOException e) {
            throw new UncheckedIOException(
                    directory + " could not be deleted: " + e.getMessage() + "; delete it by hand", e);
        }
    }
}
