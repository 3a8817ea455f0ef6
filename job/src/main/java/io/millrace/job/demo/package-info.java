/**
 * The demonstration: a broker, prompts of the kinds that the demo model knows, the streaming job, and a look at what came out.
 * Uses the broker and the streaming job as anybody would; holds no part of them.
 */
package io.millrace.job.demo;
