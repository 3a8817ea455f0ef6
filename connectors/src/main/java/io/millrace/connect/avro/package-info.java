/**
 * The Avro form of prompts, completions and dead letters: single-object encoding, one record a message, with the
 * writer's schema named by its fingerprint. It must not know where the bytes come from or go to.
 */
package io.millrace.connect.avro;
