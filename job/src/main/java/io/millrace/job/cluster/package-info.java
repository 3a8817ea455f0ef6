/**
 * A Flink cluster inside this JVM and the checkpoints it leaves behind: starting it, submitting a job, asking it for counts,
 * checkpointing, stopping, and finding what a later start can resume from. Knows job graphs, not what they compute.
 */
package io.millrace.job.cluster;
