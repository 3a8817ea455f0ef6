/**
 * A Kafka broker inside this JVM: one KRaft node that is broker and controller, for the demo, for trying out streams and for
 * tests. Knows neither Flink nor what the topics hold.
 */
package io.millrace.job.broker;
