/**
 * The scenarios: what is run, for how long, in what alternation, and which checks follow. Must not know the command line or
 * the formats of reports.
 */
package io.millrace.bench.scenario;
