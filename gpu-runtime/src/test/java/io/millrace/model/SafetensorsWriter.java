package io.millrace.model;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/** Writes small safetensors files for tests, whole or broken on purpose. */
public final class SafetensorsWriter {
    private final ByteArrayOutputStream data = new ByteArrayOutputStream();
    private final StringBuilder header = new StringBuilder("{\"__metadata__\":{\"format\":\"pt\"}");

    /** Appends a tensor with its little-endian bytes. */
    public SafetensorsWriter add(String name, String dtype, long[] shape, byte[] bytes) {
        return addHeader(name, dtype, shape, data.size(), data.size() + bytes.length)
                .addData(bytes);
    }

    /** Appends an F32 tensor. */
    public SafetensorsWriter addFloats(String name, long[] shape, float... values) {
        ByteBuffer bytes = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asFloatBuffer().put(values);
        return add(name, "F32", shape, bytes.array());
    }

    SafetensorsWriter addHeader(String name, String dtype, long[] shape, long begin, long end) {
        header.append(",\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + Arrays.toString(shape)
                + ",\"data_offsets\":[" + begin + "," + end + "]}");
        return this;
    }

    SafetensorsWriter addData(byte[] bytes) {
        data.writeBytes(bytes);
        return this;
    }

    public byte[] toBytes() {
        byte[] json = (header + "}").getBytes(StandardCharsets.UTF_8);
        ByteBuffer file = ByteBuffer.allocate(8 + json.length + data.size()).order(ByteOrder.LITTLE_ENDIAN);
        return file.putLong(json.length).put(json).put(data.toByteArray()).array();
    }

    public void write(Path file) throws IOException {
        Files.write(file, toBytes());
    }
}
