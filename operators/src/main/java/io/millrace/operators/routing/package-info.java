/**
 * Which key a request gets, and so which subtask: requests with the same leading chunk share a key, so that their prefix KV
 * is computed and kept once, and a prefix hot enough to outgrow one subtask gets more keys. Owns the router's own counts;
 * must not know engines or block tables. Routing never changes an output.
 */
package io.millrace.operators.routing;
