package io.millrace.job.cluster;

import java.nio.file.Path;
import java.time.Instant;

/**
 * A complete checkpoint or savepoint on disk.
 *
 * @param directory holds {@code _metadata}
 * @param checkpointId number of the checkpoint; grows over all starts of a job
 * @param savepoint whether a savepoint
 * @param takenAt when it was completed
 */
public record RestorePoint(Path directory, long checkpointId, boolean savepoint, Instant takenAt) {

    /** For messages: kind, number, time, place. */
    public String describe() {
        return (savepoint ? "savepoint " : "checkpoint ") + checkpointId + " of "
                + takenAt.truncatedTo(java.time.temporal.ChronoUnit.SECONDS) + " (" + directory + ")";
    }
}
