/** The {@code millrace bench} command line: options, output files, exit codes. Must not measure anything itself. */
package io.millrace.bench.cli;
