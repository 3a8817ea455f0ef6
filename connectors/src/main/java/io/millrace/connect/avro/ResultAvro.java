package io.millrace.connect.avro;

import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;

/** Writes completions and dead letters in Avro's single-object encoding. Stateless; any thread. */
public final class ResultAvro {
    private ResultAvro() {}

    /** The completion's message. */
    public static byte[] toBytes(Completion completion) {
        try {
            return bytes(Completion.getEncoder().encode(completion));
        } catch (IOException e) {
            throw new UncheckedIOException("writing to memory failed", e);
        }
    }

    /** The dead letter's message. */
    public static byte[] toBytes(DeadLetter letter) {
        try {
            return bytes(DeadLetter.getEncoder().encode(letter));
        } catch (IOException e) {
            throw new UncheckedIOException("writing to memory failed", e);
        }
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }
}
