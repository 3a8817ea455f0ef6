/**
 * Offline generation from a file: from the first start over any number of kills and resumptions to the merged output and its
 * summary. Knows the steps and their order, not how records are read, answered or written.
 */
package io.millrace.job.batch;
