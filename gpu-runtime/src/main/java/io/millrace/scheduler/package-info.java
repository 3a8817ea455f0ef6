/**
 * Decides what each step computes: admission, the token budget, priorities, forks and preemption. It deals in ints and must
 * know neither runner, backend nor engine.
 */
package io.millrace.scheduler;
