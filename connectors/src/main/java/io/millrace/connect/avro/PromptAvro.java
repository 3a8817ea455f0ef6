package io.millrace.connect.avro;

import io.millrace.connect.json.ErrorCodes;
import io.millrace.connect.json.PromptRules;
import io.millrace.connect.json.RecordException;
import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.Header;
import io.millrace.schemas.Prompt;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Source;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.SchemaNormalization;
import org.apache.avro.message.BinaryMessageDecoder;
import org.apache.avro.message.SchemaStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads prompts from Avro's single-object encoding: two marker bytes, the fingerprint of the writer's schema (CRC-64-AVRO,
 * little endian), the record. Records of this version's schema and of every schema given at construction are read; fields
 * the writer lacked are absent, fields only the writer had are dropped, as Avro's resolution says. One thread at a time.
 */
public final class PromptAvro {
    private static final Logger LOG = LoggerFactory.getLogger(PromptAvro.class);
    private static final int HEADER_BYTES = 10;
    private static final String REMEDY =
            "Write single-object encoded Avro (BinaryMessageEncoder) with the schema Prompt, or tell Millrace the schema.";

    private final Map<Long, Schema> writerSchemas = new HashMap<>();
    private final BinaryMessageDecoder<Prompt> decoder;

    /**
     * @param writerSchemas schemas of writers beside this version's own
     * @throws IllegalArgumentException if one of them cannot be read as a prompt
     */
    public PromptAvro(List<Schema> writerSchemas) {
        SchemaStore.Cache store = new SchemaStore.Cache();
        add(Prompt.getClassSchema(), store);
        for (Schema writer : writerSchemas) {
            SchemaCompatibility.SchemaPairCompatibility compatibility =
                    SchemaCompatibility.checkReaderWriterCompatibility(Prompt.getClassSchema(), writer);
            if (compatibility.getType() != SchemaCompatibility.SchemaCompatibilityType.COMPATIBLE) {
                throw new IllegalArgumentException(
                        "the writer schema " + writer.getFullName() + " cannot be read as a prompt: "
                                + compatibility.getResult().getIncompatibilities());
            }
            add(writer, store);
        }
        decoder = Prompt.createDecoder(store);
    }

    private void add(Schema schema, SchemaStore.Cache store) {
        writerSchemas.put(SchemaNormalization.parsingFingerprint64(schema), schema);
        store.addSchema(schema);
    }

    /**
     * Reads one record.
     *
     * @param message the record's bytes; kept by the envelope without a copy, so not to be changed
     * @param source where the record was read
     * @param headers the record's headers
     * @return the prompt, or the error met, with the request_id where that could be read; never throws for any bytes
     */
    public PromptEnvelope parse(byte[] message, Source source, List<Header> headers) {
        PromptEnvelope envelope = new PromptEnvelope(source, ByteBuffer.wrap(message), headers, null, null, null);
        try {
            Prompt prompt = decode(message);
            if (prompt.getRequestId() != null && !prompt.getRequestId().isEmpty()) {
                envelope.setRequestId(prompt.getRequestId());
            }
            PromptRules.check(prompt);
            envelope.setPrompt(prompt);
        } catch (RecordException e) {
            envelope.setError(e.toErrorInfo());
        } catch (RuntimeException e) {
            // A defect here would otherwise restart the job on the same record for ever.
            LOG.error("Reading the record at {} failed unexpectedly; it becomes a dead letter.", source, e);
            envelope.setError(new ErrorInfo(
                    ErrorCodes.PARSER_DEFECT,
                    "reading the record failed unexpectedly: " + e,
                    "Report this record to the makers of Millrace; it is a defect of the parser."));
        }
        return envelope;
    }

    private Prompt decode(byte[] message) throws RecordException {
        ByteBuffer bytes = ByteBuffer.wrap(message).order(ByteOrder.LITTLE_ENDIAN);
        if (message.length < HEADER_BYTES || message[0] != (byte) 0xc3 || message[1] != 0x01) {
            throw invalid("the record does not begin with Avro's single-object marker 0xc3 0x01 and a fingerprint");
        }
        long fingerprint = bytes.getLong(2);
        Schema writer = writerSchemas.get(fingerprint);
        if (writer == null) {
            throw invalid(String.format(
                    "the record's schema has the fingerprint %016x, which is not known; known are %s",
                    fingerprint,
                    writerSchemas.keySet().stream()
                            .sorted()
                            .map("%016x"::formatted)
                            .toList()));
        }
        try {
            AvroShape.check(bytes.position(HEADER_BYTES), writer);
            return decoder.decode(message);
        } catch (AvroShape.MalformedException | IOException | AvroRuntimeException e) {
            throw invalid("the record does not follow its schema: " + e.getMessage());
        }
    }

    private static RecordException invalid(String message) {
        return new RecordException(ErrorCodes.INVALID_AVRO, message, REMEDY);
    }
}
