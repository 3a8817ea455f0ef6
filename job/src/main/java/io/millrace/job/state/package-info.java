/**
 * A job's directory on disk: who holds it, what it was started with, small files that are written whole or not at all. Knows
 * nothing of Flink.
 */
package io.millrace.job.state;
