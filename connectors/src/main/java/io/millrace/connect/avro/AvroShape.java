package io.millrace.connect.avro;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import org.apache.avro.Schema;

/**
 * Walks the bytes of a record along its schema before it is decoded. Avro's decoder believes every length it reads and
 * allocates for it, so that a few wrong bytes could ask for gigabytes; and it replaces what is not UTF-8. One object
 * walks one record.
 */
final class AvroShape {
    private static final int MAX_DEPTH = 64;
    private static final int MAX_VARINT_BYTES = 10;

    private final ByteBuffer in;
    private final int start;

    /** What is wrong with the bytes, and where. */
    static final class MalformedException extends Exception {
        private static final long serialVersionUID = 1L;

        MalformedException(String message) {
            super(message, null, false, false);
        }
    }

    private AvroShape(ByteBuffer in) {
        this.in = in;
        this.start = in.position();
    }

    /** Checks that the bytes are exactly one record of the schema; the buffer's position is left alone. */
    static void check(ByteBuffer bytes, Schema schema) throws MalformedException {
        AvroShape shape = new AvroShape(bytes.duplicate());
        shape.walk(schema, "", 0);
        if (shape.in.hasRemaining()) {
            throw shape.malformed(shape.in.remaining() + " bytes too many", "the record");
        }
    }

    private void walk(Schema schema, String path, int depth) throws MalformedException {
        if (depth > MAX_DEPTH) {
            throw malformed("nested deeper than " + MAX_DEPTH, path);
        }
        switch (schema.getType()) {
            case RECORD -> {
                for (Schema.Field field : schema.getFields()) {
                    walk(field.schema(), path.isEmpty() ? field.name() : path + "." + field.name(), depth + 1);
                }
            }
            case UNION -> walk(branch(schema, path), path, depth + 1);
            case ARRAY -> blocks(null, schema.getElementType(), path, depth);
            case MAP -> blocks(Schema.create(Schema.Type.STRING), schema.getValueType(), path, depth);
            case STRING -> checkUtf8(take(length(path), path), path);
            case BYTES -> take(length(path), path);
            case FIXED -> take(schema.getFixedSize(), path);
            case INT -> {
                long value = varint(path);
                if (value != (int) value) {
                    throw malformed("the integer " + value + " has more than 32 bits", path);
                }
            }
            case LONG -> varint(path);
            case ENUM -> checkIndex(varint(path), schema.getEnumSymbols().size(), path);
            case FLOAT -> take(Float.BYTES, path);
            case DOUBLE -> take(Double.BYTES, path);
            case BOOLEAN -> checkIndex(take(1, path).get(), 2, path);
            case NULL -> {}
        }
    }

    private Schema branch(Schema union, String path) throws MalformedException {
        long index = varint(path);
        checkIndex(index, union.getTypes().size(), path);
        return union.getTypes().get((int) index);
    }

    private void blocks(Schema key, Schema value, String path, int depth) throws MalformedException {
        for (long count = varint(path); count != 0; count = varint(path)) {
            if (count < 0) {
                count = -count;
                varint(path);
            }
            // Every element of our schemas takes at least a byte.
            if (count < 0 || count > in.remaining()) {
                throw malformed(count + " elements announced, " + in.remaining() + " bytes left", path);
            }
            for (long i = 0; i < count; i++) {
                if (key != null) {
                    walk(key, path, depth + 1);
                }
                walk(value, path, depth + 1);
            }
        }
    }

    private long length(String path) throws MalformedException {
        long length = varint(path);
        if (length < 0) {
            throw malformed("a length of " + length, path);
        }
        return length;
    }

    private ByteBuffer take(long numBytes, String path) throws MalformedException {
        if (numBytes > in.remaining()) {
            throw malformed(numBytes + " bytes announced, " + in.remaining() + " left", path);
        }
        ByteBuffer taken = in.slice(in.position(), (int) numBytes);
        in.position(in.position() + (int) numBytes);
        return taken;
    }

    private long varint(String path) throws MalformedException {
        long bits = 0;
        for (int i = 0; i < MAX_VARINT_BYTES; i++) {
            byte b = take(1, path).get();
            bits |= (long) (b & 0x7f) << (7 * i);
            if (b >= 0) {
                return (bits >>> 1) ^ -(bits & 1);
            }
        }
        throw malformed("an integer of more than " + MAX_VARINT_BYTES + " bytes", path);
    }

    private void checkIndex(long index, int size, String path) throws MalformedException {
        if (index < 0 || index >= size) {
            throw malformed("the choice " + index + " of " + size, path);
        }
    }

    private void checkUtf8(ByteBuffer text, String path) throws MalformedException {
        try {
            StandardCharsets.UTF_8.newDecoder().decode(text);
        } catch (CharacterCodingException e) {
            throw malformed("text that is not UTF-8", path);
        }
    }

    private MalformedException malformed(String what, String path) {
        return new MalformedException(
                what + " in " + path + ", before byte " + (in.position() - start) + " of the record");
    }
}
