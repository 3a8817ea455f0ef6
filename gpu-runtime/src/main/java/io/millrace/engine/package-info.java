/**
 * The inference engine: requests go in from any thread, one engine thread schedules, runs and updates step by step, and
 * reports what each step did. The runtime's only public entry. It must not know Flink, Kafka or Avro.
 */
package io.millrace.engine;
