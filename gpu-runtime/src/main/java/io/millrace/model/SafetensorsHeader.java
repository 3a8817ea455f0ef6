package io.millrace.model;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/**
 * The header of one safetensors file: 8 bytes of little-endian length, a JSON object of tensors, then the data. Checked as
 * the reference implementation does: known types, sizes that follow from type and shape, and tensors that cover the data
 * without overlap, hole or excess.
 */
final class SafetensorsHeader {
    private static final int LENGTH_BYTES = 8;
    /** The reference implementation's own limit. */
    private static final long MAX_HEADER_BYTES = 100_000_000;

    /** One tensor; offsets are absolute in the file. */
    record Entry(String name, StorageType storageType, long[] shape, long begin, long end) {}

    private SafetensorsHeader() {}

    /** How the file begins that Git leaves in place of a large one it has not fetched, read as a length. */
    private static final long LFS_POINTER = ByteBuffer.wrap("version ".getBytes(StandardCharsets.US_ASCII))
            .order(ByteOrder.LITTLE_ENDIAN)
            .getLong();

    /** Reads and validates; the entries come in the order of their data. */
    static List<Entry> read(Path file) {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            long sizeBytes = channel.size();
            if (sizeBytes < LENGTH_BYTES) {
                throw new InvalidModelException(file + " is truncated: " + sizeBytes
                        + " bytes are less than the 8 bytes of a safetensors header's length; fetch it again");
            }
            long headerBytes = readFully(channel, 0, LENGTH_BYTES, file).getLong();
            if (headerBytes == LFS_POINTER) {
                throw new InvalidModelException(
                        file + " is a Git LFS pointer, not the weights themselves; fetch them with: git lfs pull");
            }
            if (headerBytes < 2 || headerBytes > MAX_HEADER_BYTES) {
                throw new InvalidModelException(file + " is no safetensors file: its header length of "
                        + Long.toUnsignedString(headerBytes) + " bytes is outside of [2, " + MAX_HEADER_BYTES + "]");
            }
            if (headerBytes > sizeBytes - LENGTH_BYTES) {
                throw new InvalidModelException(file + " is truncated: its header of " + headerBytes
                        + " bytes does not fit into the file of " + sizeBytes + " bytes; fetch it again");
            }
            ByteBuffer json = readFully(channel, LENGTH_BYTES, (int) headerBytes, file);
            JsonNode root = JsonFile.parse(json.array(), file + " (safetensors header)");
            return entries(root, file, LENGTH_BYTES + headerBytes, sizeBytes);
        } catch (IOException e) {
            throw new InvalidModelException(file + " cannot be read: " + e.getMessage(), e);
        }
    }

    private static ByteBuffer readFully(FileChannel channel, long position, int length, Path file) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        while (buffer.hasRemaining()) {
            if (channel.read(buffer, position + buffer.position()) < 0) {
                throw new InvalidModelException(file + " ended while its header was read; fetch it again");
            }
        }
        return buffer.flip();
    }

    private static List<Entry> entries(JsonNode root, Path file, long dataStart, long fileBytes) {
        List<Entry> entries = new ArrayList<>();
        for (Map.Entry<String, JsonNode> field : root.properties()) {
            if (!field.getKey().equals("__metadata__")) {
                entries.add(entry(field.getKey(), field.getValue(), file, dataStart, fileBytes));
            }
        }
        entries.sort(Comparator.comparingLong(Entry::begin).thenComparingLong(Entry::end));
        long expectedBegin = dataStart;
        for (Entry entry : entries) {
            if (entry.begin() != expectedBegin) {
                String problem =
                        entry.begin() < expectedBegin ? "overlaps the one before it" : "leaves a hole before it";
                throw invalid(
                        file,
                        entry.name(),
                        problem + ": its data begins at byte " + (entry.begin() - dataStart) + " where "
                                + (expectedBegin - dataStart) + " is due");
            }
            expectedBegin = entry.end();
        }
        if (expectedBegin != fileBytes) {
            throw new InvalidModelException(file + " has " + (fileBytes - expectedBegin)
                    + " bytes after the last tensor's data; fetch it again");
        }
        return entries;
    }

    private static Entry entry(String name, JsonNode node, Path file, long dataStart, long fileBytes) {
        JsonNode dtype = node.path("dtype");
        StorageType storageType = dtype.isTextual() ? StorageType.ofHeader(dtype.textValue()) : null;
        if (storageType == null) {
            throw invalid(file, name, "has the unknown dtype " + dtype);
        }
        long[] shape = longs(node.path("shape"), file, name, "shape");
        long[] offsets = longs(node.path("data_offsets"), file, name, "data_offsets");
        long dataBytes = fileBytes - dataStart;
        if (offsets.length != 2 || offsets[0] > offsets[1]) {
            throw invalid(file, name, "has bad data_offsets " + node.path("data_offsets") + ": [begin, end] is due");
        }
        if (offsets[1] > dataBytes) {
            throw invalid(
                    file,
                    name,
                    "ends at byte " + offsets[1] + " of the data, but the file holds " + dataBytes
                            + ": it is truncated; fetch it again");
        }
        if (sizeBits(storageType, shape, file, name) != 8 * (offsets[1] - offsets[0])) {
            throw invalid(
                    file,
                    name,
                    "has " + (offsets[1] - offsets[0]) + " bytes, which does not fit dtype " + storageType
                            + " and shape " + node.path("shape"));
        }
        return new Entry(name, storageType, shape, dataStart + offsets[0], dataStart + offsets[1]);
    }

    private static long sizeBits(StorageType storageType, long[] shape, Path file, String name) {
        try {
            long bits = storageType.bits();
            for (long dimension : shape) {
                bits = Math.multiplyExact(bits, dimension);
            }
            return bits;
        } catch (ArithmeticException e) {
            throw invalid(file, name, "has a shape whose size overflows 63 bits");
        }
    }

    private static long[] longs(JsonNode node, Path file, String name, String key) {
        if (!node.isArray()) {
            throw invalid(file, name, "has no list '" + key + "'");
        }
        long[] values = new long[node.size()];
        for (int i = 0; i < values.length; i++) {
            if (!node.get(i).isIntegralNumber()
                    || !node.get(i).canConvertToLong()
                    || node.get(i).longValue() < 0) {
                throw invalid(file, name, "has " + node.get(i) + " in '" + key + "': whole numbers from 0 are due");
            }
            values[i] = node.get(i).longValue();
        }
        return values;
    }

    private static InvalidModelException invalid(Path file, String name, String problem) {
        return new InvalidModelException(file + ": tensor '" + name + "' " + problem);
    }
}
