package io.millrace.connect.file;

import java.io.IOException;
import java.util.Objects;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * What is left to read of one file.
 *
 * @param file the file's name
 * @param fileBytes the file's length when the job first read it: what comes after it is not read
 * @param offsetBytes where the next line begins
 * @param numLinesRead lines before that position, blank ones included
 */
public record JsonlSplit(String file, long fileBytes, long offsetBytes, long numLinesRead) implements SourceSplit {
    public JsonlSplit {
        Objects.requireNonNull(file, "file");
        if (offsetBytes < 0 || offsetBytes > fileBytes || numLinesRead < 0) {
            throw new IllegalArgumentException(String.format(
                    "impossible position in %s: byte %d of %d after %d lines",
                    file, offsetBytes, fileBytes, numLinesRead));
        }
    }

    @Override
    public String splitId() {
        return file;
    }

    /** Version 1: file, fileBytes, offsetBytes, numLinesRead. */
    static final class Serializer implements SimpleVersionedSerializer<JsonlSplit> {
        private static final int VERSION = 1;

        @Override
        public int getVersion() {
            return VERSION;
        }

        @Override
        public byte[] serialize(JsonlSplit split) throws IOException {
            DataOutputSerializer out = new DataOutputSerializer(64);
            write(split, out);
            return out.getCopyOfBuffer();
        }

        @Override
        public JsonlSplit deserialize(int version, byte[] bytes) throws IOException {
            checkVersion(version);
            return read(new DataInputDeserializer(bytes));
        }

        static void checkVersion(int version) throws IOException {
            if (version != VERSION) {
                throw new IOException("file source state of version " + version + ", this program reads version "
                        + VERSION + "; resume with the program that wrote the checkpoint");
            }
        }

        static void write(JsonlSplit split, DataOutputSerializer out) throws IOException {
            out.writeUTF(split.file);
            out.writeLong(split.fileBytes);
            out.writeLong(split.offsetBytes);
            out.writeLong(split.numLinesRead);
        }

        static JsonlSplit read(DataInputDeserializer in) throws IOException {
            return new JsonlSplit(in.readUTF(), in.readLong(), in.readLong(), in.readLong());
        }
    }
}
