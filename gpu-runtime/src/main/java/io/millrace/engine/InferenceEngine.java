package io.millrace.engine;

import io.millrace.backend.Backend;
import io.millrace.backend.BackendConfig;
import io.millrace.backend.BackendProvider;
import io.millrace.model.ModelDirectory;
import io.millrace.prefix.PrefixStore;
import io.millrace.speculation.AcceptanceRule;
import io.millrace.speculation.Proposer;
import io.millrace.speculation.Speculation;
import io.millrace.tokenizer.Tokenizer;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Queue;
import java.util.ServiceLoader;
import java.util.function.LongSupplier;

/**
 * Generates: takes requests from any thread and serves them together, step by step, on one engine thread (continuous
 * batching, Yu et al., Orca, 2022). Owns the backend and the tokenizer it opened.
 *
 * <p>Either {@link #start} it and take reports through a listener, or call {@link #step} on a thread of your own.
 */
public final class InferenceEngine implements AutoCloseable {
    /** What other threads ask of the engine thread, in order. */
    private sealed interface Message {
        record Submit(Request request, long nanos) implements Message {}

        record Cancel(String requestId) implements Message {}
    }

    private final LongSupplier nanoClock;
    private final PrefixStore store; // null for none
    private final Backend backend;
    private final Optional<Tokenizer> tokenizer;
    private final Optional<Proposer> proposer;
    private final String numericFingerprint;
    private final int maxModelLen;
    private final int maxSequenceTokens;
    private final EngineCore core;

    private final Object lock = new Object();
    private final Queue<Message> inbox = new ArrayDeque<>(); // guarded by lock
    private boolean busy; // guarded by lock: messages taken from the inbox are not all served
    private boolean closing; // guarded by lock
    private boolean answered; // guarded by lock: the prefix store has answered since the last step
    private boolean closed; // guarded by lock
    private Thread thread; // guarded by lock
    private volatile EngineStats stats;

    /** Opens an engine without speculation over an opened backend, which it owns from now on. */
    InferenceEngine(EngineConfig config, ModelFacts model, Optional<Tokenizer> tokenizer, Backend backend) {
        this(config, model, tokenizer, backend, Optional.empty());
    }

    /** Opens an engine over an opened backend and proposer, which it owns from now on. */
    InferenceEngine(
            EngineConfig config,
            ModelFacts model,
            Optional<Tokenizer> tokenizer,
            Backend backend,
            Optional<Proposer> proposer) {
        this(config, model, tokenizer, backend, proposer, null, System::nanoTime);
    }

    /**
     * Opens an engine over an opened backend, proposer and a store yet to be opened, which it owns from now on.
     *
     * @param store null for none
     * @param nanoClock what all times are measured with
     */
    InferenceEngine(
            EngineConfig config,
            ModelFacts model,
            Optional<Tokenizer> tokenizer,
            Backend backend,
            Optional<Proposer> proposer,
            PrefixStore store,
            LongSupplier nanoClock) {
        this.nanoClock = nanoClock;
        this.store = store;
        this.backend = backend;
        this.tokenizer = tokenizer;
        this.proposer = proposer;
        maxModelLen = maxModelLen(config, model);
        if (backend.numBlocks() < 1) {
            throw new InvalidConfigException(
                    "--kv-cache-memory-bytes",
                    config.kvCacheMemoryBytes(),
                    "must hold at least one block of " + backend.bytesPerBlock() + " bytes",
                    "raise it");
        }
        boolean needsKvTransfer = config.tier() != null
                && (store != null || config.tier().format().isLossy());
        if (needsKvTransfer && backend.kvTransfer() == null) {
            throw new InvalidConfigException(
                    "--tier",
                    config.device(),
                    "needs a device that can move KV out of its memory and back, which this one cannot",
                    "leave the tier out, or use --device cpu");
        }
        if (store != null && config.tier() == null) {
            throw new IllegalArgumentException("a prefix store is given but no TierConfig; use EngineConfig.withTier");
        }
        int kvCacheTokens = (int) Math.min(Integer.MAX_VALUE, (long) backend.numBlocks() * config.blockSize());
        maxSequenceTokens = Math.min(maxModelLen, kvCacheTokens);
        String kvFingerprint = backend.numericFingerprint() + "; model " + model.fingerprint() + roundedKv(config);
        SpeculativeConfig speculative = config.speculative();
        boolean drawsOtherwise = proposer.isPresent() && speculative.rule() != AcceptanceRule.COUPLED;
        numericFingerprint = kvFingerprint
                + (drawsOtherwise ? "; speculation " + speculative.rule().optionName() : "");
        core = new EngineCore(
                config,
                new RequestLimits(model.vocabSize(), maxModelLen, kvCacheTokens, tokenizer.isPresent()),
                model.eosTokenIds(),
                kvFingerprint + "; policy 0; salt ",
                tokenizer.orElse(null),
                backend,
                proposer.map(p -> new Speculation(
                                p, speculative.numSpeculativeTokens(), speculative.adaptive(), nanoClock))
                        .orElse(null),
                store,
                nanoClock,
                this::signalAnswer);
        stats = core.stats();
    }

    /**
     * Opens a model on the device that the configuration names.
     *
     * @throws InvalidConfigException naming the option that does not fit
     * @throws io.millrace.model.InvalidModelException naming what the model directory lacks
     */
    public static InferenceEngine open(EngineConfig config) {
        return open(config, (PrefixStore) null);
    }

    /** As {@link #open(EngineConfig)}, with a prefix store yet to be opened, which the engine closes; null for none. */
    public static InferenceEngine open(EngineConfig config, PrefixStore store) {
        List<String> names = new ArrayList<>();
        for (BackendProvider provider :
                ServiceLoader.load(BackendProvider.class, InferenceEngine.class.getClassLoader())) {
            if (provider.name().equals(config.device())) {
                return open(config, provider, store);
            }
            names.add(provider.name());
        }
        throw new InvalidConfigException(
                "--device", config.device(), "must be one of " + names, "choose one or add the device's jar");
    }

    /** Opens a model on the given kind of device. */
    public static InferenceEngine open(EngineConfig config, BackendProvider provider) {
        return open(config, provider, null);
    }

    /**
     * Opens a model on the given kind of device, with a prefix store yet to be opened.
     *
     * @param store closed by the engine, from its opening on; null for none
     */
    public static InferenceEngine open(EngineConfig config, BackendProvider provider, PrefixStore store) {
        Path directory = Path.of(config.model());
        ModelDirectory model = provider.openModel(directory);
        ModelFacts facts = ModelFacts.of(model);
        int maxModelLen = maxModelLen(config, facts);
        Optional<Tokenizer> tokenizer = Tokenizer.open(directory);
        try {
            Backend backend = provider.open(new BackendConfig(
                    model,
                    config.dtype(),
                    config.blockSize(),
                    config.kvCacheMemoryBytes(),
                    config.maxNumBatchedTokens(),
                    config.maxNumSeqs(),
                    maxModelLen,
                    config.numThreads(),
                    config.logprobsMode(),
                    config.kvCacheDtype()));
            Optional<Proposer> proposer = Optional.empty();
            try {
                proposer = Proposers.open(config, provider, model, maxModelLen);
                return new InferenceEngine(config, facts, tokenizer, backend, proposer, store, System::nanoTime);
            } catch (RuntimeException | Error e) {
                proposer.ifPresent(Proposer::close);
                backend.close();
                throw e;
            }
        } catch (RuntimeException | Error e) {
            tokenizer.ifPresent(Tokenizer::close);
            throw e;
        }
    }

    /**
     * Makes an engine over an opened backend and a clock, for callers that {@link #step}: with a virtual clock, a backend
     * that advances it by what a step costs, and a store that answers at its times, everything that the engine decides by
     * times can be tried exactly.
     *
     * @param backend closed by the engine
     * @param store yet to be opened, closed by the engine; null for none
     * @param nanoClock what all times are measured with; read by any thread that answers, too
     */
    public static InferenceEngine over(
            EngineConfig config, ModelFacts model, Backend backend, PrefixStore store, LongSupplier nanoClock) {
        return new InferenceEngine(config, model, Optional.empty(), backend, Optional.empty(), store, nanoClock);
    }

    /** Starts the engine thread; the listener takes its reports. At most once. */
    public void start(String threadName, StepListener listener) {
        Objects.requireNonNull(listener);
        synchronized (lock) {
            if (thread != null || closing) {
                throw new IllegalStateException(closing ? "the engine is closed" : "the engine is started already");
            }
            thread = new Thread(() -> loop(listener), threadName);
            thread.setDaemon(true);
            thread.start();
        }
    }

    /**
     * Runs one step on the caller's thread, in place of {@link #start}; always the same thread.
     *
     * @return what the step did, or null when there was nothing to do: the engine is idle, or (then {@link #isIdle} is
     *     false) everything left waits for the prefix store's answers, or for {@link #wakeNanos}
     */
    public StepReport step() {
        synchronized (lock) {
            if (thread != null || closing) {
                throw new IllegalStateException(
                        closing ? "the engine is closed" : "the engine's own thread runs its steps");
            }
        }
        if (!takeMessages(false)) {
            return null;
        }
        StepReport report = runStep();
        synchronized (lock) {
            busy = core.hasWork();
        }
        return report;
    }

    /** Hands a request in; any thread. One that cannot be served comes back as a failure in a report. */
    public void submit(Request request) {
        post(new Message.Submit(Objects.requireNonNull(request), nanoClock.getAsLong()));
    }

    /** Ends a request's unfinished samples with ABORT; any thread. Does nothing for a request that has ended. */
    public void cancel(String requestId) {
        post(new Message.Cancel(Objects.requireNonNull(requestId)));
    }

    /** Whether everything submitted was served and reported; any thread. */
    public boolean isIdle() {
        synchronized (lock) {
            return inbox.isEmpty() && !busy;
        }
    }

    /**
     * For callers that {@link #step}, after a step that returned null though the engine is not idle: the clock's time from
     * which a step may do something though the store has not answered; Long.MAX_VALUE if only an answer can help.
     */
    public long wakeNanos() {
        return core.wakeNanos();
    }

    /** The counters as of the last step, or of what was done while idle since; a prefix store's as of now. Any thread. */
    public EngineStats stats() {
        EngineStats published = stats;
        // A store goes on working after the last step.
        return store == null ? published : published.withStore(store.stats());
    }

    /** Names everything that may change output bits: what a restore compares. */
    public String numericFingerprint() {
        return numericFingerprint;
    }

    /** Most tokens of a sequence, prompt and output. */
    public int maxModelLen() {
        return maxModelLen;
    }

    /** Most tokens of a sequence that the KV cache can hold too; at most {@link #maxModelLen}. */
    public int maxSequenceTokens() {
        return maxSequenceTokens;
    }

    /**
     * Stops and joins the engine thread, then frees backend and tokenizer. Any thread but the engine's own; idempotent. A
     * listener that blocks is interrupted.
     */
    @Override
    public void close() {
        Thread running;
        synchronized (lock) {
            running = thread;
            if (running == Thread.currentThread()) {
                throw new IllegalStateException("the engine thread cannot close its own engine");
            }
            closing = true;
            lock.notifyAll();
        }
        if (running != null) {
            running.interrupt();
            joinUninterruptibly(running);
        }
        synchronized (lock) {
            if (closed) {
                return;
            }
            closed = true;
        }
        if (store != null) {
            store.close();
        }
        proposer.ifPresent(Proposer::close);
        backend.close();
        tokenizer.ifPresent(Tokenizer::close);
    }

    /** Throws IllegalStateException if blocks and sequences do not add up; for tests that step themselves. */
    void checkIntegrity() {
        core.checkIntegrity();
    }

    /** Rounding KV of whole chunks changes bits; where a chunk is loaded from does not. */
    private static String roundedKv(EngineConfig config) {
        return config.tier() == null || !config.tier().format().isLossy()
                ? ""
                : "; kv " + config.tier().format().optionName() + " in chunks of "
                        + config.tier().chunkTokens();
    }

    private void loop(StepListener listener) {
        try {
            while (takeMessages(true)) {
                StepReport report = runStep();
                if (report == null) {
                    awaitAnswer();
                    continue;
                }
                if (!report.deltas().isEmpty()
                        || !report.promptScores().isEmpty()
                        || !report.failures().isEmpty()) {
                    listener.onStep(report);
                }
            }
        } catch (Throwable death) { // whatever it is, the owner must hear of it
            if (!isClosing()) {
                listener.onEngineDeath(death);
            }
        }
    }

    private boolean isClosing() {
        synchronized (lock) {
            return closing;
        }
    }

    private void post(Message message) {
        synchronized (lock) {
            inbox.add(message);
            lock.notifyAll();
        }
    }

    /** Serves the inbox; returns whether there is a step to run. If told to wait, false means the engine is closing. */
    private boolean takeMessages(boolean wait) {
        List<Message> messages = List.of();
        while (true) {
            workWhileIdle();
            synchronized (lock) {
                busy = core.hasWork();
                while (wait && !closing && !busy && inbox.isEmpty()) {
                    waitForMessage();
                }
                if (closing) {
                    return false;
                }
                if (!inbox.isEmpty()) {
                    messages = List.copyOf(inbox);
                    inbox.clear();
                    busy = true;
                }
            }
            messages.forEach(this::serve);
            messages = List.of();
            if (core.hasWork()) {
                return true;
            }
            if (!wait) {
                synchronized (lock) {
                    busy = false;
                    return false;
                }
            }
        }
    }

    /** Works off what waits for idle moments, until there is something to do. */
    private void workWhileIdle() {
        while (!core.hasWork()) {
            synchronized (lock) {
                if (closing || !inbox.isEmpty()) {
                    return;
                }
            }
            boolean isMoreLeft = core.workWhileIdle();
            stats = core.stats();
            if (!isMoreLeft) {
                return;
            }
        }
    }

    private void waitForMessage() {
        waitForMessage(0);
    }

    /** Called under the lock; waits for ever if millis is 0. */
    private void waitForMessage(long millis) {
        try {
            lock.wait(millis);
        } catch (InterruptedException e) {
            if (!closing) {
                throw new IllegalStateException("the engine thread was interrupted by another than close()", e);
            }
        }
    }

    private void signalAnswer() {
        synchronized (lock) {
            answered = true;
            lock.notifyAll();
        }
    }

    /** Sleeps until the prefix store answers, a message comes, or the time has come to look again. */
    private void awaitAnswer() {
        synchronized (lock) {
            while (!closing && !answered && inbox.isEmpty()) {
                long wake = core.wakeNanos();
                long nanos = wake == Long.MAX_VALUE ? Long.MAX_VALUE : wake - nanoClock.getAsLong();
                if (nanos <= 0) {
                    return;
                }
                waitForMessage(Math.min(1000, 1 + nanos / 1_000_000));
            }
        }
    }

    private void serve(Message message) {
        if (message instanceof Message.Submit submit) {
            core.add(submit.request(), submit.nanos());
        } else if (message instanceof Message.Cancel cancel) {
            core.cancel(cancel.requestId());
        }
    }

    private StepReport runStep() {
        synchronized (lock) {
            answered = false;
        }
        StepReport report = core.step();
        stats = core.stats();
        return report;
    }

    private static int maxModelLen(EngineConfig config, ModelFacts model) {
        if (config.maxModelLen() > model.maxModelLen()) {
            throw new InvalidConfigException(
                    "--max-model-len",
                    config.maxModelLen(),
                    "must be at most the model's own limit of " + model.maxModelLen() + " tokens",
                    "lower it or leave it out");
        }
        return config.maxModelLen() == 0 ? model.maxModelLen() : config.maxModelLen();
    }

    private static void joinUninterruptibly(Thread thread) {
        boolean interrupted = false;
        while (true) {
            try {
                thread.join();
                break;
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
