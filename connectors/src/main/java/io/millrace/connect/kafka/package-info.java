/**
 * Kafka topics as the source of prompts and the sinks of completions and dead letters, and what is checked of a broker
 * before a job starts. It must not know what happens to records in between, nor the forms they have on the wire.
 */
package io.millrace.connect.kafka;
