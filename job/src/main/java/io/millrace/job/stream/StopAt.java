package io.millrace.job.stream;

/** Where reading ends. */
public enum StopAt {
    /** At the end that the topic has when the job first starts. */
    LATEST
}
