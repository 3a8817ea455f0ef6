/**
 * Turns a scheduled batch into the plain arrays a backend executes, and maps the backend's rows back to sequences. It holds
 * no policy: what runs was decided before.
 */
package io.millrace.runner;
