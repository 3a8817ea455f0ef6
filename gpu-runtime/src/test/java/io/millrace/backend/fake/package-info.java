/** A device that computes nothing but proves that block tables, copies and positions are right; for tests. */
package io.millrace.backend.fake;
