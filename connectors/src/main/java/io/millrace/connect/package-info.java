/**
 * Where records enter and leave a Millrace job: sources, sinks and the conversion between bytes and the wire format.
 * Sub-packages own one format or one transport each; this package owns what is common to all transports. It must not
 * know the engine, the tokenizer or the operators: it parses bytes, and judges nothing that needs a model.
 */
package io.millrace.connect;
