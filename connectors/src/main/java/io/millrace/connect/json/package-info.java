/**
 * The JSON form of prompts, completions and dead letters: strict reading into the wire format, and writing with
 * bytes that depend on nothing but the record. It must not know where the bytes come from or go to.
 */
package io.millrace.connect.json;
