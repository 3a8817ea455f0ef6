/**
 * The CPU backend: oneDNN matrix products over weights packed once, the kernels module's arithmetic for the rest, a paged
 * KV pool in Java arrays, and one pool of compute threads for the process. It owns the rule that a row's bits depend on
 * nothing but the row. It must not know of requests, scheduling or block allocation: it executes the step it is given.
 */
package io.millrace.backend.cpu;
