/**
 * The arithmetic of serving: what a model weighs and computes per token ({@link io.millrace.plan.ModelCost}), what a device
 * reads and multiplies per second ({@link io.millrace.plan.DeviceRates}), and what follows for step times, capacity, prefill,
 * preemption, the prefix tier and speculation. Pure functions over immutable records, from published figures for a plan or from
 * measured rates inside a running engine. Owns the formulas and how a plan is written; must not know devices, threads,
 * scheduling or command lines.
 */
package io.millrace.plan;
