/**
 * Results and checks, as tables, JSON and an HTML page. Must not know how anything was measured.
 */
package io.millrace.bench.report;
