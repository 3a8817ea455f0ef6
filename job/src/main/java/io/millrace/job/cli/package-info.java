/**
 * The command line: options, their conversion to immutable records, help and error messages. Each command hands over to the
 * package that does the work; nothing outside this package knows picocli.
 */
package io.millrace.job.cli;
