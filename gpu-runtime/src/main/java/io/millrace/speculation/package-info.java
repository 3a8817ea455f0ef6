/**
 * Speculative sampling: proposers that guess a sequence's next tokens (prompt lookup, a draft model), how many guesses are
 * worth their price, and what came of them. It must not know how a step is scheduled, nor decide what is accepted: the
 * engine verifies.
 */
package io.millrace.speculation;
