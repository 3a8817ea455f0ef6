package io.millrace.operators.inference;

import io.millrace.engine.InferenceEngine;
import io.millrace.engine.StepReport;
import io.millrace.operators.PipelineOptions;
import io.millrace.operators.tier.TaskTier;
import io.millrace.schemas.Completion;
import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.LedgerRequest;
import io.millrace.schemas.PreparedRequest;
import io.millrace.schemas.RequestCounts;
import io.millrace.schemas.RequestProgress;
import java.io.File;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
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
import org.apache.flink.util.function.ThrowingRunnable;
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
    /** Often enough to watch; each report, and its way to the client, takes time from the compute threads. */
    private static final long REPORT_MILLIS = 500;

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
    private transient FailureOutput failures;
    private transient TaskTier tier;
    private transient volatile long mailPostedNanos;

    private transient Map<String, LedgerEntry> ledger;
    private transient WaitingRequests waiting;
    private transient Admission admission;
    private transient TakenOver takenOver;
    private transient RequestCounts counts;
    private transient long nextArrival;
    private transient int numSequencesInEngine;
    private transient boolean inputEnded;

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
        takenOver = new TakenOver();
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
        takenOver.add(progress);
    }

    @Override
    public void open() throws Exception {
        super.open();
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        String execution = getRuntimeContext().getJobInfo().getJobId() + "-"
                + getRuntimeContext().getTaskInfo().getAttemptNumber();
        int maxNumSeqs = options.engine().maxNumSeqs();
        guard = new CrashGuard(options.crashGuardDirectory(), subtask, execution, Admission.maxSequences(maxNumSeqs));
        admission = new Admission(waiting, guard, maxNumSeqs);
        tier = openTier();
        engine = InferenceEngine.open(options.engine(), tier.store());
        tier.setGeneration(engine.numericFingerprint(), POLICY_VERSION);
        FingerprintCheck.check(fingerprintState.get(), engine.numericFingerprint(), options.allowFingerprintChange());
        if (engine.maxSequenceTokens() < engine.maxModelLen()) {
            LOG.warn(
                    "the KV memory holds {} tokens of one sequence and the context is {}: longer requests are refused, and "
                            + "those without max_tokens end there; raise --kv-cache-memory-bytes or lower --max-model-len",
                    engine.maxSequenceTokens(),
                    engine.maxModelLen());
        }
        metrics = new EngineMetrics(
                getRuntimeContext().getMetricGroup(), engine::stats, () -> ledger.size() + waiting.size());
        failures = new FailureOutput(options, output, counts, metrics);
        assembler = new CompletionAssembler(engine.numericFingerprint(), POLICY_VERSION);
        ring = new ReportRing(this::postMail);
        engine.start("millrace-engine-" + subtask, ring);
        if (takenOver.numRequests() > 0) {
            LOG.info("restored {} requests in flight with {} tokens", takenOver.numRequests(), takenOver.numTokens());
        }
        admitWaiting();
        reportPeriodically(0);
    }

    private TaskTier openTier() throws Exception {
        KeyedStateBackend<Long> backend = getKeyedStateBackend();
        int parallelism = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
        File workingDirectory =
                getContainingTask().getEnvironment().getTaskManagerInfo().getTmpWorkingDirectory();
        return TaskTier.open(
                options.tier(),
                options.engine().tier(),
                new TaskTier.Task(getKeyedStateStore(), backend, this::postTierMail, parallelism, workingDirectory),
                nanos -> metrics.tierMailHeld(nanos));
    }

    @Override
    public void close() throws Exception {
        if (ring != null) {
            ring.close();
        }
        if (engine != null) {
            engine.close();
        } else if (tier != null) {
            tier.close(); // else the engine's
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
            failures.fail(request, List.of(), request.getError());
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

    /**
     * Lets mails run for a bounded time; barriers get through after it whether or not there was room. Sleeps until a mail
     * comes, since every wake-up would take a core from a compute thread that others wait for.
     */
    private void waitForRoom() throws Exception {
        boolean[] isOver = {false};
        long end = getProcessingTimeService().getCurrentProcessingTime() + maxAdmissionWaitMillis;
        ScheduledFuture<?> timer = getProcessingTimeService().registerTimer(end, timestamp -> isOver[0] = true);
        try {
            while (!waiting.isEmpty() && !isOver[0]) {
                mailbox.yield();
            }
        } finally {
            timer.cancel(false);
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

    /** Moves waiting requests into the engine while there is room. Changes the current key. */
    private void admitWaiting() throws Exception {
        while (true) {
            WaitingRequests.Waiting next = admission.next(numSequencesInEngine, ledger.isEmpty());
            if (next == null) {
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

    private void putAside(LedgerEntry entry) throws Exception {
        takenOver.settled(entry);
        state.remove(entry.uid());
        guard.putAside();
        failures.fail(
                entry,
                new ErrorInfo(
                        "poison_request",
                        "the engine or its process died while this request ran alone",
                        "send it to a test job and report the failure; change it before sending it again"));
    }

    // ------------------------------------------------------------------ mails from the engine

    /** Called by the engine thread. */
    private void postMail() {
        mailPostedNanos = System.nanoTime();
        post(this::takeReports, "engine reports");
    }

    /** Called by the engine thread, and by the task thread. */
    private void postTierMail(Runnable mail) {
        long postedNanos = System.nanoTime();
        post(
                () -> {
                    metrics.mailTaken(System.nanoTime() - postedNanos);
                    keepingKey(mail::run);
                },
                "prefix tier");
    }

    private void post(ThrowingRunnable<Exception> mail, String description) {
        try {
            mailbox.execute(mail, description);
        } catch (RejectedExecutionException e) {
            LOG.debug("the task is closing; {} are not needed any more", description, e);
        }
    }

    private void takeReports() throws Exception {
        metrics.mailTaken(System.nanoTime() - mailPostedNanos);
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
                failures.fail(entry, new ErrorInfo(failure.code(), failure.message(), failure.remedy()));
            }
        }
    }

    private void apply(LedgerEntry entry, StepReport.SampleDelta delta) throws Exception {
        entry.sample(delta.sample()).append(delta.tokenIds(), delta.logprobs());
        entry.setChanged(true);
        takenOver.drewTokens(entry);
        StepReport.Finished finished = delta.finished();
        if (finished == null) {
            return;
        }
        entry.keepPromptSources(finished.numCachedTokens(), finished.numTierTokens());
        Completion completion = assembler.assemble(entry, delta.sample(), finished);
        long numBytes = options.completionBytes().apply(completion);
        if (numBytes > options.maxCompletionBytes()) {
            engine.cancel(entry.uid());
            forget(entry);
            failures.failTooLarge(entry, completion, numBytes);
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
            counts.setCachedTokens(counts.getCachedTokens() + entry.numCachedTokens());
            counts.setTierTokens(counts.getTierTokens() + entry.numTierTokens());
        }
    }

    /** Takes a request out of ledger and state. Changes the current key. */
    private void forget(LedgerEntry entry) throws Exception {
        ledger.remove(entry.uid());
        takenOver.settled(entry);
        numSequencesInEngine -= entry.numUnfinished();
        setCurrentKey(entry.key());
        state.remove(entry.uid());
        guard.leave(entry.uid());
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
        takenOver.checkpointTaken(context.getCheckpointId());
        countsState.update(List.of(RequestTallies.copy(counts)));
        fingerprintState.update(List.of(engine.numericFingerprint()));
    }

    @Override
    public void notifyCheckpointComplete(long checkpointId) throws Exception {
        super.notifyCheckpointComplete(checkpointId);
        if (takenOver.hasProgress(checkpointId)) {
            guard.progressCheckpointed();
        }
        keepingKey(this::admitWaiting);
    }

    // ------------------------------------------------------------------ counts

    private void reportPeriodically(long timestamp) throws Exception {
        report();
        keepingKey(this::admitWaiting);
        tier.tick();
        long next = getProcessingTimeService().getCurrentProcessingTime() + REPORT_MILLIS;
        getProcessingTimeService().registerTimer(next, this::reportPeriodically);
    }

    private void report() {
        coordinator.sendEventToCoordinator(SubtaskCounts.of(
                counts,
                inputEnded,
                (long) ledger.size() + waiting.size(),
                takenOver.numTokens(),
                takenOver.numRequests(),
                engine.stats(),
                engine.numericFingerprint(),
                metrics.mailLatencyP99Nanos()));
    }
}
