package io.millrace.connect.file;

import io.millrace.schemas.PromptEnvelope;
import java.io.IOException;
import java.util.Objects;
import java.util.Optional;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;

/** The source behind {@link JsonlPrompts}: one file is one split, read by one reader. */
public final class JsonlSource
        implements Source<PromptEnvelope, JsonlSplit, JsonlSource.Unassigned>, ResultTypeQueryable<PromptEnvelope> {
    private static final long serialVersionUID = 1L;

    private static final int MAX_MAX_LINE_BYTES = 1 << 30;

    private final String file;
    private final int maxLineBytes;

    /** The enumerator's state: the split that no reader has, if there is one. */
    public record Unassigned(Optional<JsonlSplit> split) {}

    JsonlSource(String file, int maxLineBytes) {
        this.file = Objects.requireNonNull(file, "file");
        this.maxLineBytes = maxLineBytes;
        if (maxLineBytes < 1 || maxLineBytes > MAX_MAX_LINE_BYTES) {
            throw new IllegalArgumentException("maxLineBytes is " + maxLineBytes + "; it must lie in 1 to "
                    + MAX_MAX_LINE_BYTES + ", the longest line one array can hold");
        }
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.BOUNDED;
    }

    @Override
    public SourceReader<PromptEnvelope, JsonlSplit> createReader(SourceReaderContext context) {
        return new JsonlReader(context, maxLineBytes);
    }

    @Override
    public SplitEnumerator<JsonlSplit, Unassigned> createEnumerator(SplitEnumeratorContext<JsonlSplit> context)
            throws IOException {
        long fileBytes = JsonlLines.checkedLength(file);
        return new JsonlEnumerator(context, Optional.of(new JsonlSplit(file, fileBytes, 0, 0)));
    }

    @Override
    public SplitEnumerator<JsonlSplit, Unassigned> restoreEnumerator(
            SplitEnumeratorContext<JsonlSplit> context, Unassigned checkpoint) {
        return new JsonlEnumerator(context, checkpoint.split());
    }

    @Override
    public SimpleVersionedSerializer<JsonlSplit> getSplitSerializer() {
        return new JsonlSplit.Serializer();
    }

    @Override
    public SimpleVersionedSerializer<Unassigned> getEnumeratorCheckpointSerializer() {
        return new UnassignedSerializer();
    }

    @Override
    public TypeInformation<PromptEnvelope> getProducedType() {
        return new AvroTypeInfo<>(PromptEnvelope.class);
    }

    @Override
    public String toString() {
        return "JSON Lines file " + file;
    }

    private static final class UnassignedSerializer implements SimpleVersionedSerializer<Unassigned> {
        @Override
        public int getVersion() {
            return new JsonlSplit.Serializer().getVersion();
        }

        @Override
        public byte[] serialize(Unassigned state) throws IOException {
            DataOutputSerializer out = new DataOutputSerializer(64);
            out.writeBoolean(state.split().isPresent());
            if (state.split().isPresent()) {
                JsonlSplit.Serializer.write(state.split().get(), out);
            }
            return out.getCopyOfBuffer();
        }

        @Override
        public Unassigned deserialize(int version, byte[] bytes) throws IOException {
            JsonlSplit.Serializer.checkVersion(version);
            DataInputDeserializer in = new DataInputDeserializer(bytes);
            return new Unassigned(in.readBoolean() ? Optional.of(JsonlSplit.Serializer.read(in)) : Optional.empty());
        }
    }
}
