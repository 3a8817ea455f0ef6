/**
 * What the tier's bench needs beside an engine: the published figures, what computing and loading cost on their machines, the
 * best that both together can do, a clock, a device and a store that run on virtual time, and stores for real time. Must not
 * know the command line, reports' formats or how often anything is measured.
 */
package io.millrace.bench.tier;
