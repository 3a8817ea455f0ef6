/**
 * Topics in, topics out: the endless job on an outside broker, its orderly stop, its resumption, and the file through which
 * {@code savepoint} finds it.
 */
package io.millrace.job.stream;
