package io.millrace.operators.inference;

import io.millrace.engine.InferenceEngine;
import io.millrace.engine.StepReport;
import io.millrace.operators.InferencePipeline;
import io.millrace.operators.PipelineOptions;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.LedgerRequest;
import io.millrace.schemas.PreparedRequest;
import io.millrace.schemas.RequestCounts;
import io.millrace.schemas.RequestProgress;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.apache.flink.runtime.operators.coordination.OperatorEventGateway;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.runtime.state.StateSnapshotContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.util.function.RunnableWithException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs an inference engine inside a Flink task.
 *
 * <p><b>One truth.</b> The task thread owns the ledger of requests in flight, backed by keyed state. The engine thread
 * publishes each step's tokens through a bounded ring and posts a mail; the mail applies them, emits what finished and takes
 * it out of state. A checkpoint writes the ledger's progress: nothing in it is behind or ahead of what was emitted.
 *
 * <p><b>A full engine never holds up a barrier.</b> A record waits a bounded time for room; then it stays in keyed state, on
 * disk, and is admitted when its turn comes. That trickle is the back-pressure.
 *
 * <p><b>The end of the input</b> is announced by the largest watermark (there are no others). Nothing waits for it here; the
 * client sees in {@link JobCounts} when all is answered and stops the job.
 *
 * <p>All methods are called by the task thread.
 */
final class InferenceOperator extends AbstractStreamOperator<Completion>
        implements OneInputStreamOperator<PreparedRequest, Completion>, BoundedOneInput {
    private static final long serialVersionUID = 1L;
    private static final Logger LOG = LoggerFactory.getLogger(InferenceOperator.class);
    private static final long REPORT_MILLIS = 200;

    /** Requests are admitted up to this share above max_num_seqs, so that the scheduler always has prefills to choose. */
    private static final double ADMISSION_LOOKAHEAD = 0.5;

    /** The policy version that completions carry as long as no update was installed. */
    private static final long POLICY_VERSION = 0;

    private final PipelineOptions options;
    private final long maxAdmissionWaitMillis;
    private final transient MailboxExecutor mailbox;
    private final transient OperatorEventGateway coordinator;

    private transient RequestState state;
    private transient ListState<RequestCounts> countsState;
    private transient ListState<String> fingerprintState;
    private transient InferenceEngine engine;
    private transient ReportRing ring;
    private transient CrashGuard guard;
    private transient CompletionAssembler assembler;
    private transient EngineMetrics metrics;

    private transient Map<String, LedgerEntry> ledger;
    private transient WaitingRequests waiting;
    private transient RequestCounts counts;
    private transient long nextArrival;
    private transient int numSequencesInEngine;
    private transient boolean inputEnded;
    private transient long numRestoredTokens;
    private transient long numRestoredRequests;
    private transient int numBegunWithoutNews; // taken over with progress, and not a token further yet
    private transient boolean drewTokens;
    private transient long firstCheckpointWithProgress;

    InferenceOperator(
            StreamOperatorParameters<Completion> parameters,
            PipelineOptions options,
            long maxAdmissionWaitMillis,
            OperatorEventGateway coordinator) {
        super(parameters);
        this.options = options;
        this.maxAdmissionWaitMillis = maxAdmissionWaitMillis;
        this.mailbox = parameters.getMailboxExecutor();
        this.coordinator = coordinator;
    }

    // ------------------------------------------------------------------ start, restore, stop

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        ledger = new LinkedHashMap<>();
        firstCheckpointWithProgress = Long.MAX_VALUE;
        waiting = new WaitingRequests();
        state = new RequestState(context.getKeyedStateStore());
        countsState = context.getOperatorStateStore()
                .getListState(new ListStateDescriptor<>("counts", new AvroTypeInfo<>(RequestCounts.class)));
        fingerprintState = context.getOperatorStateStore()
                .getUnionListState(new ListStateDescriptor<>("numeric-fingerprint", Types.STRING));
        // Sums go on across restarts and rescaling: each subtask takes over the counts it is dealt.
        counts = RequestTallies.sum(countsState.get());
        if (context.isRestored()) {
            KeyedStateBackend<Long> backend = getKeyedStateBackend();
            state.forEach(backend, this::takeOver);
        }
    }

    private void takeOver(LedgerRequest request, RequestProgress progress) {
        waiting.add(request, progress != null);
        nextArrival = Math.max(nextArrival, request.getArrival() + 1);
        numRestoredRequests++;
        if (progress != null) {
            numBegunWithoutNews++;
            progress.getSamples()
                    .forEach(s -> numRestoredTokens += s.getTokenIds().remaining() / Integer.BYTES);
        }
    }

    @Override
    public void open() throws Exception {
        super.open();
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        String execution = getRuntimeContext().getJobInfo().getJobId() + "-"
                + getRuntimeContext().getTaskInfo().getAttemptNumber();
        guard = new CrashGuard(options.crashGuardDirectory(), subtask, execution, maxSequencesInEngine());
        engine = InferenceEngine.open(options.engine());
        checkFingerprint();
        if (engine.maxSequenceTokens() < engine.maxModelLen()) {
            LOG.warn(
                    "the KV memory holds {} tokens of one sequence and the context is {}: longer requests are refused, and "
                            + "those without max_tokens end there; raise --kv-cache-memory-bytes or lower --max-model-len",
                    engine.maxSequenceTokens(),
                    engine.maxModelLen());
        }
        assembler = new CompletionAssembler(engine.numericFingerprint(), POLICY_VERSION);
        metrics = new EngineMetrics(
                getRuntimeContext().getMetricGroup(), engine::stats, () -> ledger.size() + waiting.size());
        ring = new ReportRing(this::postMail);
        engine.start("millrace-engine-" + subtask, ring);
        if (numRestoredRequests > 0) {
            LOG.info("restored {} requests in flight with {} tokens", numRestoredRequests, numRestoredTokens);
        }
        admitWaiting();
        reportPeriodically(0);
    }

    private void checkFingerprint() throws Exception {
        for (String restored : fingerprintState.get()) {
            if (restored.equals(engine.numericFingerprint())) {
                continue;
            }
            String message =
                    "the checkpoint was taken with numeric fingerprint " + restored + " and this machine, model or "
                            + "configuration has " + engine.numericFingerprint()
                            + ": resumed samples would not equal an undisturbed run's";
            if (!options.allowFingerprintChange()) {
                // No restart would mend it.
                throw new SuppressRestartsException(new IllegalStateException(
                        message + "; restore on the same kind of machine, or pass --allow-fingerprint-change"));
            }
            LOG.warn("{}; going on since --allow-fingerprint-change is set", message);
        }
    }

    @Override
    public void close() throws Exception {
        if (ring != null) {
            ring.close();
        }
        if (engine != null) {
            engine.close();
        }
        if (guard != null) {
            guard.close();
        }
        super.close();
    }

    // ------------------------------------------------------------------ records in

    @Override
    public void processElement(StreamRecord<PreparedRequest> element) throws Exception {
        PreparedRequest request = element.getValue();
        counts.setRecordsIn(counts.getRecordsIn() + 1);
        if (request.getError() != null) {
            fail(request, List.of(), request.getError());
            return;
        }
        if (request.getSampling().getMaxTokens() == null) {
            int numPromptTokens = request.getPromptTokenIds().remaining() / Integer.BYTES;
            request.getSampling().setMaxTokens(Math.max(1, engine.maxSequenceTokens() - numPromptTokens));
        }
        LedgerRequest stored = new LedgerRequest(nextArrival++, seed(request), request);
        state.put(stored);
        waiting.add(stored, false);
        admitWaiting();
        if (!waiting.isEmpty()) {
            waitForRoom();
        }
    }

    /** Lets mails run for a bounded time; barriers get through after it whether or not there was room. */
    private void waitForRoom() throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(maxAdmissionWaitMillis);
        while (!waiting.isEmpty() && System.nanoTime() < deadline) {
            if (!mailbox.tryYield()) {
                Thread.sleep(1);
            }
        }
    }

    private long seed(PreparedRequest request) {
        Long given = request.getSampling().getSeed();
        return given != null
                ? given
                : RequestSeeds.seed(options.seed(), request.getRequestId(), POLICY_VERSION, request.getEpoch());
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
        if (mark.getTimestamp() == Watermark.MAX_WATERMARK.getTimestamp() && !inputEnded) {
            inputEnded = true;
            report();
        }
    }

    /**
     * Only a job that is drained by hand ends its input before it is stopped; its requests in flight are answered first.
     * Bounded jobs hold their sources open instead, since no checkpoint completes in here.
     */
    @Override
    public void endInput() throws Exception {
        while (!ledger.isEmpty() || !waiting.isEmpty()) {
            mailbox.yield();
        }
    }

    // ------------------------------------------------------------------ admission

    private int maxSequencesInEngine() {
        int maxNumSeqs = options.engine().maxNumSeqs();
        return maxNumSeqs + Math.max(1, (int) (maxNumSeqs * ADMISSION_LOOKAHEAD));
    }

    private boolean hasRoom(int numSamples) {
        if (ledger.isEmpty()) {
            return true;
        }
        return !guard.isCautious() && numSequencesInEngine + numSamples <= maxSequencesInEngine();
    }

    /** Moves waiting requests into the engine while there is room. Changes the current key. */
    private void admitWaiting() throws Exception {
        while (!waiting.isEmpty()) {
            WaitingRequests.Waiting next = nextToAdmit();
            if (!hasRoom(next.numSamples())) {
                return;
            }
            setCurrentKey(next.key());
            LedgerEntry entry = new LedgerEntry(state.request(next.uid()), state.progress(next.uid()));
            if (guard.isCondemned(next.uid())) {
                waiting.removeFirst();
                putAside(entry);
                continue;
            }
            if (guard.isCautious() && !guard.tryEnter(next.uid())) {
                return; // another subtask has the job's one place; the periodic report tries again
            }
            waiting.removeFirst();
            ledger.put(next.uid(), entry);
            numSequencesInEngine += entry.numUnfinished();
            engine.submit(entry.toRequest());
        }
    }

    private WaitingRequests.Waiting nextToAdmit() throws IOException {
        if (guard.postponesSuspects()) {
            while (guard.isSuspect(waiting.first().uid()) && waiting.postponeFirst()) {
                // the next one may be a suspect too
            }
        } else {
            waiting.recallPostponed();
        }
        return waiting.first();
    }

    private void putAside(LedgerEntry entry) throws Exception {
        numBegunWithoutNews -= entry.takeBegun() ? 1 : 0;
        state.remove(entry.uid());
        guard.putAside();
        fail(
                entry.request(),
                entry.emittedIndices(),
                new ErrorInfo(
                        "poison_request",
                        "the engine or its process died while this request ran alone",
                        "send it to a test job and report the failure; change it before sending it again"));
    }

    // ------------------------------------------------------------------ mails from the engine

    /** Called by the engine thread. */
    private void postMail() {
        try {
            mailbox.execute(this::takeReports, "engine reports");
        } catch (RejectedExecutionException e) {
            LOG.debug("the task is closing; the engine's reports are not needed any more", e);
        }
    }

    private void takeReports() throws Exception {
        keepingKey(this::applyReports);
        if (inputEnded && ledger.isEmpty() && waiting.isEmpty()) {
            report();
        }
    }

    /** Mails run in the middle of anything that yields, so they leave the current key as they found it. */
    private void keepingKey(RunnableWithException action) throws Exception {
        Object key = getCurrentKey();
        action.run();
        if (key != null) {
            setCurrentKey(key);
        }
    }

    private void applyReports() throws Exception {
        ring.beginMail();
        Throwable death = ring.death();
        for (StepReport report = ring.poll(); report != null; report = ring.poll()) {
            apply(report);
        }
        if (death != null) {
            guard.engineDied();
            throw new IOException("the inference engine died: " + death, death);
        }
        admitWaiting();
    }

    private void apply(StepReport report) throws Exception {
        for (StepReport.PromptScores scores : report.promptScores()) {
            LedgerEntry entry = ledger.get(scores.requestId());
            if (entry != null) {
                entry.keepPromptLogprobs(scores.logprobs());
                entry.setChanged(true);
            }
        }
        for (StepReport.SampleDelta delta : report.deltas()) {
            LedgerEntry entry = ledger.get(delta.requestId());
            if (entry != null) {
                apply(entry, delta);
            }
        }
        for (StepReport.RequestFailure failure : report.failures()) {
            LedgerEntry entry = ledger.get(failure.requestId());
            if (entry != null) {
                forget(entry);
                fail(
                        entry.request(),
                        entry.emittedIndices(),
                        new ErrorInfo(failure.code(), failure.message(), failure.remedy()));
            }
        }
    }

    private void apply(LedgerEntry entry, StepReport.SampleDelta delta) throws Exception {
        entry.sample(delta.sample()).append(delta.tokenIds(), delta.logprobs());
        entry.setChanged(true);
        drewTokens = true;
        numBegunWithoutNews -= entry.takeBegun() ? 1 : 0;
        StepReport.Finished finished = delta.finished();
        if (finished == null) {
            return;
        }
        if (entry.numCachedTokens() < 0) {
            entry.setNumCachedTokens(finished.numCachedTokens());
        }
        Completion completion = assembler.assemble(entry, delta.sample(), finished);
        long numBytes = options.completionBytes().apply(completion);
        if (numBytes > options.maxCompletionBytes()) {
            engine.cancel(entry.uid());
            forget(entry);
            fail(entry.request(), entry.emittedIndices(), tooLarge(completion, numBytes));
            return;
        }
        emit(entry, delta.sample(), completion, finished);
    }

    private void emit(LedgerEntry entry, int sample, Completion completion, StepReport.Finished finished)
            throws Exception {
        int numTokens = completion.getTokenIds().size();
        output.collect(new StreamRecord<>(completion));
        entry.markEmitted(sample);
        numSequencesInEngine--;
        metrics.sampleFinished(finished, numTokens);
        counts.setCompletions(counts.getCompletions() + 1);
        counts.setCompletionTokens(counts.getCompletionTokens() + numTokens);
        if (entry.numUnfinished() == 0) {
            forget(entry);
            counts.setCompleted(counts.getCompleted() + 1);
            counts.setPromptTokens(counts.getPromptTokens() + entry.promptTokenIds().length);
            counts.setCachedTokens(counts.getCachedTokens() + Math.max(0, entry.numCachedTokens()));
        }
    }

    private ErrorInfo tooLarge(Completion completion, long numBytes) {
        return new ErrorInfo(
                "output_too_large",
                "the completion of sample " + completion.getIndex() + " takes " + numBytes
                        + " bytes and the output takes records of at most " + options.maxCompletionBytes(),
                "ask for fewer tokens or log probabilities, or raise max.message.bytes of the topic and "
                        + "max.request.size of the producer");
    }

    /** Takes a request out of ledger and state. Changes the current key. */
    private void forget(LedgerEntry entry) throws Exception {
        ledger.remove(entry.uid());
        numBegunWithoutNews -= entry.takeBegun() ? 1 : 0;
        numSequencesInEngine -= entry.numUnfinished();
        setCurrentKey(entry.key());
        state.remove(entry.uid());
        guard.leave(entry.uid());
    }

    private void fail(PreparedRequest request, List<Integer> emittedIndices, ErrorInfo error) {
        DeadLetter letter = new DeadLetter(
                request.getRequestId(),
                request.getSource(),
                request.getOriginal(),
                request.getHeaders(),
                error,
                emittedIndices);
        output.collect(InferencePipeline.DEAD_LETTERS, new StreamRecord<>(fitting(letter)));
        counts.getFailedByCode().merge(error.getCode(), 1L, Long::sum);
        metrics.requestFailed(error.getCode());
    }

    /** Cuts the original of a dead letter that its sink would refuse; the source coordinates still lead to it. */
    private DeadLetter fitting(DeadLetter letter) {
        long excess = options.deadLetterBytes().apply(letter) - options.maxDeadLetterBytes();
        if (excess <= 0) {
            return letter;
        }
        ByteBuffer original = letter.getOriginal().duplicate();
        int numBytes = original.remaining();
        letter.setError(new ErrorInfo(
                letter.getError().getCode(),
                letter.getError().getMessage() + " (the original of " + numBytes
                        + " bytes is cut: the output takes records of at most " + options.maxDeadLetterBytes() + ")",
                letter.getError().getRemedy()));
        int keep = numBytes;
        while (keep > 0 && options.deadLetterBytes().apply(letter) > options.maxDeadLetterBytes()) {
            keep /= 2;
            original.limit(original.position() + keep);
            letter.setOriginal(original.slice());
        }
        return letter;
    }

    // ------------------------------------------------------------------ checkpoints

    @Override
    public void snapshotState(StateSnapshotContext context) throws Exception {
        super.snapshotState(context);
        for (LedgerEntry entry : ledger.values()) {
            if (entry.isChanged()) {
                setCurrentKey(entry.key());
                state.putProgress(entry.uid(), entry.toProgress());
                entry.setChanged(false);
            }
        }
        if (drewTokens && numBegunWithoutNews == 0) {
            firstCheckpointWithProgress = Math.min(firstCheckpointWithProgress, context.getCheckpointId());
        }
        countsState.update(List.of(RequestTallies.copy(counts)));
        fingerprintState.update(List.of(engine.numericFingerprint()));
    }

    @Override
    public void notifyCheckpointComplete(long checkpointId) throws Exception {
        super.notifyCheckpointComplete(checkpointId);
        if (checkpointId >= firstCheckpointWithProgress) {
            guard.progressCheckpointed();
        }
        keepingKey(this::admitWaiting);
    }

    // ------------------------------------------------------------------ counts

    private void reportPeriodically(long timestamp) throws Exception {
        report();
        keepingKey(this::admitWaiting);
        long next = getProcessingTimeService().getCurrentProcessingTime() + REPORT_MILLIS;
        getProcessingTimeService().registerTimer(next, this::reportPeriodically);
    }

    private void report() {
        coordinator.sendEventToCoordinator(SubtaskCounts.of(
                counts,
                inputEnded,
                (long) ledger.size() + waiting.size(),
                numRestoredTokens,
                numRestoredRequests,
                engine.stats(),
                engine.numericFingerprint()));
    }
}
