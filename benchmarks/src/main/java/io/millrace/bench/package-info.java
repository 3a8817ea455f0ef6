/**
 * Benches of the engine and of the whole job on random weights, against ceilings measured in the same run. Owns scenarios,
 * ceilings, checks and reports; must not be known by the product: no code path is chosen by what is measured here.
 */
package io.millrace.bench;
