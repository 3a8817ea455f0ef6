/**
 * Turns a row of logits into a token: settings, logit bias and penalties, temperature and truncation, counter-based random
 * numbers, log probabilities. A row's vocabulary is read in few vectorised passes; truncation is skipped where the token drawn
 * shows that it would have survived. A draw is a pure function of the logits and a {@link io.millrace.sampling.RowSampling}; must
 * not know batches, sequences or devices.
 */
package io.millrace.sampling;
