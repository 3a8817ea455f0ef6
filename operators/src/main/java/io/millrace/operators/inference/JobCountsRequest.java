package io.millrace.operators.inference;

import org.apache.flink.runtime.operators.coordination.CoordinationRequest;

/** Asks the inference operator's coordinator for {@link JobCounts}. */
public final class JobCountsRequest implements CoordinationRequest {
    private static final long serialVersionUID = 1L;
}
