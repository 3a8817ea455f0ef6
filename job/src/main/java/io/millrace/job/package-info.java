/**
 * The entry point of the command line. The sub-packages hold the commands, the topology, the embedded cluster and broker;
 * nothing here handles single records.
 */
package io.millrace.job;
