package io.millrace.job.cluster;

import io.millrace.operators.inference.JobCounts;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Consumer;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Follows a job: asks for its counts until everything has been answered, a stop is requested, or the job is over. One thread.
 */
public final class JobWatch {

    private static final Logger LOG = LoggerFactory.getLogger(JobWatch.class);
    /** As often as subtasks report: asking more often shows nothing new and takes time from the compute threads. */
    private static final Duration POLL_PERIOD = Duration.ofMillis(500);

    /** Why the watch ended. */
    public enum End {
        /** The sources are read to their ends and every request is answered; the job still runs. */
        ANSWERED,
        /** Somebody asked to stop; the job still runs. */
        STOP_REQUESTED,
        /** The job was stopped with a savepoint or cancelled by somebody else. */
        STOPPED,
        /** The job failed for good. */
        FAILED
    }

    private final EmbeddedCluster cluster;
    private final JobID job;
    private JobCounts lastCounts;
    private long lastFaultAt;

    public JobWatch(EmbeddedCluster cluster, JobID job) {
        this.cluster = cluster;
        this.job = job;
    }

    /**
     * Follows the job.
     *
     * @param stop ends the watch
     * @param onCounts gets every complete set of counts, on this thread
     * @throws io.millrace.engine.InvalidConfigException if the job fails over a setting that no restart mends
     * @throws io.millrace.model.InvalidModelException if it fails over the model
     * @throws io.millrace.tokenizer.InvalidTokenizerException if it fails over the tokenizer's files
     * @throws io.millrace.tokenizer.ChatTemplateException if the chat template cannot be parsed
     */
    public End until(StopSignal stop, Consumer<JobCounts> onCounts) throws InterruptedException {
        while (true) {
            if (stop.isRequested()) {
                return End.STOP_REQUESTED;
            }
            // Only a job that runs answers with complete counts: its status is asked for where they are missing.
            Optional<JobCounts> counts = cluster.counts(job).filter(JobCounts::allSubtasksReported);
            if (counts.isPresent()) {
                lastCounts = counts.get();
                onCounts.accept(lastCounts);
                if (lastCounts.isFinished()) {
                    return End.ANSWERED;
                }
            } else {
                JobStatus status = cluster.status(job);
                if (status.isGloballyTerminalState()) {
                    return status == JobStatus.FAILED ? End.FAILED : End.STOPPED;
                }
                lookForFault();
            }
            stop.await(POLL_PERIOD);
        }
    }

    /** The newest counts; empty before the first. */
    public Optional<JobCounts> lastCounts() {
        return Optional.ofNullable(lastCounts);
    }

    private void lookForFault() {
        Optional<EmbeddedCluster.Fault> fault = cluster.fault(job);
        if (fault.isEmpty() || fault.get().at() == lastFaultAt) {
            return;
        }
        lastFaultAt = fault.get().at();
        Optional<RuntimeException> hopeless =
                EmbeddedCluster.hopeless(fault.get().thrown());
        if (hopeless.isPresent()) {
            throw hopeless.get();
        }
        LOG.warn(
                "the job restarts from its last checkpoint after a fault: {}",
                ClusterException.rootMessage(fault.get().thrown()));
    }
}
