/**
 * The job graph: source, duplicate filter, inference pipeline, sinks, with a fixed uid on every operator so that state is found
 * again. Knows which operators there are, not what they do with a record.
 */
package io.millrace.job.topology;
