/**
 * What a person sees while a job runs: one line that is rewritten on a terminal, plain lines elsewhere. Knows the job's counts,
 * not the job.
 */
package io.millrace.job.progress;
