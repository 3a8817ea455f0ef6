package io.millrace.model;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SafetensorsTest {
    @TempDir
    Path directory;

    @ParameterizedTest(name = "window of {0} bytes")
    @ValueSource(longs = {1, 3, 8, 64, 1000, 1 << 30})
    void readsEveryTypeThroughWindowsOfAnySize(long windowBytes) throws IOException {
        Random random = new Random(windowBytes);
        float[] floats = new float[301];
        short[] bits = new short[301];
        for (int i = 0; i < floats.length; i++) {
            floats[i] = (float) random.nextGaussian();
            bits[i] = (short) random.nextInt(1 << 15);
        }
        ByteBuffer shorts = ByteBuffer.allocate(2 * bits.length).order(ByteOrder.LITTLE_ENDIAN);
        shorts.asShortBuffer().put(bits);
        Path file = directory.resolve("model.safetensors");
        new SafetensorsWriter()
                .add("odd", "U8", new long[] {3}, new byte[] {1, 2, 3}) // leaves what follows unaligned
                .addFloats("f32", new long[] {7, 43}, floats)
                .add("bf16", "BF16", new long[] {301}, shorts.array())
                .add("f16", "F16", new long[] {301, 1}, shorts.array())
                .addFloats("empty", new long[] {0, 5})
                .write(file);
        Safetensors tensors = Safetensors.openFile(file, windowBytes);
        assertEquals(List.of("bf16", "empty", "f16", "f32", "odd"), List.copyOf(tensors.names()));
        assertArrayEquals(new long[] {7, 43}, tensors.tensor("f32").shape());
        for (int[] range : new int[][] {{0, 301}, {5, 1}, {300, 1}, {301, 0}, {17, 150}}) {
            int first = range[0];
            int count = range[1];
            float[] actual = new float[count + 2];
            short[] actualBits = new short[count + 2];
            tensors.tensor("f32").readFloats(first, actual, 1, count);
            tensors.tensor("f32").readBfloat16(first, actualBits, 1, count);
            for (int i = 0; i < count; i++) {
                assertEquals(floats[first + i], actual[1 + i]);
                assertEquals(FloatFormats.toBfloat16(floats[first + i]), actualBits[1 + i]);
            }
            assertEquals(0, actual[0]);
            assertEquals(0, actual[count + 1]);
            tensors.tensor("bf16").readFloats(first, actual, 1, count);
            tensors.tensor("bf16").readBfloat16(first, actualBits, 1, count);
            assertArrayEquals(
                    Arrays.copyOfRange(bits, first, first + count), Arrays.copyOfRange(actualBits, 1, 1 + count));
            for (int i = 0; i < count; i++) {
                assertEquals(Float.intBitsToFloat(bits[first + i] << 16), actual[1 + i]);
            }
            tensors.tensor("f16").readFloats(first, actual, 1, count);
            tensors.tensor("f16").readBfloat16(first, actualBits, 1, count);
            for (int i = 0; i < count; i++) {
                assertEquals(FloatFormats.fromFloat16(bits[first + i]), actual[1 + i]);
                assertEquals(FloatFormats.toBfloat16(actual[1 + i]), actualBits[1 + i]);
            }
        }
        byte[] raw = new byte[5];
        tensors.tensor("odd").readBytes(1, raw, 2, 2);
        assertArrayEquals(new byte[] {0, 0, 2, 3, 0}, raw);
    }

    @Test
    void convertsHalfPrecisionExactly() {
        for (int bits = 0; bits < 1 << 16; bits++) {
            int exponent = bits >> 10 & 31;
            int fraction = bits & 1023;
            double magnitude = exponent == 0 ? Math.scalb(fraction, -24) : Math.scalb(1024.0 + fraction, exponent - 25);
            if (exponent == 31) {
                magnitude = fraction == 0 ? Double.POSITIVE_INFINITY : Double.NaN;
            }
            assertEquals((float) (bits >> 15 == 0 ? magnitude : -magnitude), FloatFormats.fromFloat16((short) bits));
        }
    }

    @Test
    void roundsToBfloat16ToNearestEven() {
        Random random = new Random(5);
        for (int i = 0; i < 100_000; i++) {
            float value = Float.intBitsToFloat(random.nextInt());
            float rounded = FloatFormats.fromBfloat16(FloatFormats.toBfloat16(value));
            if (Float.isNaN(value)) {
                assertTrue(Float.isNaN(rounded));
            } else if (Float.isFinite(rounded)) {
                int below = Float.floatToRawIntBits(value) & 0xffff0000;
                double toBelow = Math.abs((double) value - Float.intBitsToFloat(below));
                double toAbove = Math.abs((double) value - Float.intBitsToFloat(below + 0x10000));
                double distance = Math.abs((double) value - rounded);
                assertEquals(Math.min(toBelow, toAbove), distance);
            }
        }
        assertEquals(0x3f80, FloatFormats.toBfloat16(Float.intBitsToFloat(0x3f808000)), "tie to the even one below");
        assertEquals(0x3f82, FloatFormats.toBfloat16(Float.intBitsToFloat(0x3f818000)), "tie to the even one above");
        assertEquals(0x7f80, FloatFormats.toBfloat16(Float.MAX_VALUE));
        assertTrue(Float.isNaN(FloatFormats.fromBfloat16(FloatFormats.toBfloat16(Float.intBitsToFloat(0x7f800001)))));
    }

    @Test
    void readsOutsideOfATensorAreRefused() throws IOException {
        Tensor tensor = open(new SafetensorsWriter().addFloats("a", new long[] {2}, 1, 2))
                .tensor("a");
        assertThrows(IndexOutOfBoundsException.class, () -> tensor.readFloats(1, new float[9], 0, 2));
        assertThrows(IndexOutOfBoundsException.class, () -> tensor.readFloats(-1, new float[9], 0, 1));
        assertThrows(IndexOutOfBoundsException.class, () -> tensor.readFloats(0, new float[1], 0, 2));
        assertThrows(IndexOutOfBoundsException.class, () -> tensor.readBytes(7, new byte[9], 0, 2));
    }

    @Test
    void weightsOfOtherTypesAreRefusedWhenRead() throws IOException {
        Safetensors tensors = open(new SafetensorsWriter().add("q", "I8", new long[] {2}, new byte[2]));
        assertError(() -> tensors.tensor("q").readFloats(0, new float[2], 0, 2), "'q'", "I8", "BF16");
        assertError(() -> tensors.tensor("absent"), "lacks the tensor 'absent'", "broken.safetensors");
    }

    @Test
    void brokenHeadersAreNamed() throws IOException {
        long[] two = {2};
        byte[] good = new SafetensorsWriter().addFloats("a", two, 1, 2).toBytes();
        assertBroken(new byte[5], "truncated");
        byte[] pointer =
                "version https://git-lfs.github.com/spec/v1\noid sha256:0\n".getBytes(StandardCharsets.US_ASCII);
        assertBroken(pointer, "Git LFS pointer", "git lfs pull");
        assertBroken(Arrays.copyOf(good, 30), "truncated", "header");
        assertBroken(Arrays.copyOf(good, good.length - 1), "'a'", "truncated");
        assertBroken(Arrays.copyOf(good, good.length + 1), "1 bytes after the last tensor");
        byte[] huge = good.clone();
        huge[7] = -1;
        assertBroken(huge, "no safetensors file", "header length");
        byte[] noJson = good.clone();
        noJson[8] = '!';
        assertBroken(noJson, "no valid JSON");
        assertBroken(headerOnly("[1]"), "does not hold a JSON object");
        assertBroken(headerOnly("{\"a\":{\"dtype\":\"F32\"}}"), "'a'", "shape");
        assertBroken(headerOnly("{\"a\":1,\"a\":2}"), "no valid JSON", "Duplicate");
        SafetensorsWriter overlap = new SafetensorsWriter()
                .addHeader("a", "F32", two, 0, 8)
                .addHeader("b", "F32", two, 4, 12)
                .addData(new byte[12]);
        assertBroken(overlap.toBytes(), "'b'", "overlaps");
        SafetensorsWriter hole = new SafetensorsWriter()
                .addHeader("a", "F32", two, 0, 8)
                .addHeader("b", "F32", two, 12, 20)
                .addData(new byte[20]);
        assertBroken(hole.toBytes(), "'b'", "hole");
        SafetensorsWriter size = new SafetensorsWriter().add("a", "F32", new long[] {3}, new byte[8]);
        assertBroken(size.toBytes(), "'a'", "8 bytes", "F32", "[3]");
        SafetensorsWriter overflow =
                new SafetensorsWriter().add("a", "F32", new long[] {1L << 40, 1L << 40}, new byte[8]);
        assertBroken(overflow.toBytes(), "'a'", "overflows");
        assertBroken(new SafetensorsWriter().add("a", "F7", two, new byte[8]).toBytes(), "'a'", "F7");
        assertBroken(
                new SafetensorsWriter()
                        .addHeader("a", "F32", new long[] {-2}, 0, 8)
                        .addData(new byte[8])
                        .toBytes(),
                "'a'",
                "-2");
        assertBroken(
                new SafetensorsWriter()
                        .addHeader("a", "F32", two, 8, 0)
                        .addData(new byte[8])
                        .toBytes(),
                "'a'",
                "data_offsets");
    }

    @Test
    void shardsAreFoundThroughTheIndex() throws IOException {
        new SafetensorsWriter().addFloats("a", new long[] {1}, 1).write(directory.resolve("one.safetensors"));
        Files.createDirectory(directory.resolve("sub"));
        new SafetensorsWriter()
                .addFloats("b", new long[] {1}, 2)
                .addFloats("unlisted", new long[] {1}, 3)
                .write(directory.resolve("sub/two.safetensors"));
        index("{\"a\":\"one.safetensors\",\"b\":\"sub/two.safetensors\"}");
        Safetensors tensors = Safetensors.open(directory);
        assertEquals(List.of("a", "b"), List.copyOf(tensors.names()));
        float[] value = new float[1];
        tensors.tensor("b").readFloats(0, value, 0, 1);
        assertEquals(2, value[0]);
    }

    @Test
    void badShardsAreNamed() throws IOException {
        assertError(() -> Safetensors.open(directory), "neither model.safetensors nor model.safetensors.index.json");
        new SafetensorsWriter().addFloats("a", new long[] {1}, 1).write(directory.resolve("one.safetensors"));
        Path outside = Files.createTempFile("outside", ".safetensors");
        try {
            new SafetensorsWriter().addFloats("a", new long[] {1}, 1).write(outside);
            Files.createSymbolicLink(directory.resolve("link.safetensors"), outside);
            assertShardError(outside.toString(), "outside of the model directory", outside.toString());
            assertShardError("../" + outside.getFileName(), "outside of the model directory");
            assertShardError("x/../../y", "outside of the model directory");
            assertShardError("link.safetensors", "a link to", outside.toString());
        } finally {
            Files.delete(outside);
        }
        assertShardError("absent.safetensors", "absent.safetensors does not exist");
        index("{\"b\":\"one.safetensors\"}");
        assertError(() -> Safetensors.open(directory), "'b'", "'one.safetensors'", "does not hold it");
        index("{\"b\":7}");
        assertError(() -> Safetensors.open(directory), "'b'", "7");
        index("{}");
        assertError(() -> Safetensors.open(directory), "weight_map");
    }

    @Test
    void linksOfTheHubsCacheAreFollowed() throws IOException {
        Path snapshot = Files.createDirectories(directory.resolve("snapshots/0123"));
        Path blobs = Files.createDirectory(directory.resolve("blobs"));
        new SafetensorsWriter().addFloats("a", new long[] {1}, 1).write(blobs.resolve("cafe"));
        Files.createSymbolicLink(snapshot.resolve("one.safetensors"), Path.of("../../blobs/cafe"));
        Files.writeString(snapshot.resolve(Safetensors.INDEX_FILE), "{\"weight_map\":{\"a\":\"one.safetensors\"}}");
        assertTrue(Safetensors.open(snapshot).contains("a"));
    }

    private void assertShardError(String shard, String... parts) throws IOException {
        index("{\"a\":\"" + shard + "\"}");
        assertError(() -> Safetensors.open(directory), parts);
    }

    private void index(String weightMap) throws IOException {
        Files.writeString(
                directory.resolve(Safetensors.INDEX_FILE), "{\"metadata\":{},\"weight_map\":" + weightMap + "}");
    }

    private Safetensors open(SafetensorsWriter writer) throws IOException {
        Path file = directory.resolve("broken.safetensors");
        writer.write(file);
        return Safetensors.openFile(file);
    }

    private void assertBroken(byte[] content, String... parts) throws IOException {
        Path file = directory.resolve("broken.safetensors");
        Files.write(file, content);
        assertError(() -> Safetensors.openFile(file), parts);
        assertError(() -> Safetensors.openFile(file), "broken.safetensors");
    }

    private static byte[] headerOnly(String json) {
        byte[] bytes = json.getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(8 + bytes.length)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putLong(bytes.length)
                .put(bytes)
                .array();
    }

    static void assertError(org.junit.jupiter.api.function.Executable action, String... parts) {
        InvalidModelException error = assertThrows(InvalidModelException.class, action);
        for (String part : parts) {
            assertTrue(error.getMessage().contains(part), "'" + part + "' in: " + error.getMessage());
        }
    }
}
