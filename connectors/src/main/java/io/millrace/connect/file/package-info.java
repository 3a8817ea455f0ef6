/**
 * JSON Lines files as a source and a sink, and the merge of a sink's part files into one file. It must not know what
 * happens to records in between, nor how the job is started or stopped.
 */
package io.millrace.connect.file;
