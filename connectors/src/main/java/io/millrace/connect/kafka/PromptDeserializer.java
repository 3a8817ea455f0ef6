package io.millrace.connect.kafka;

import io.millrace.connect.PromptParser;
import io.millrace.connect.RecordFormat;
import io.millrace.connect.json.ErrorCodes;
import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.Header;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Source;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.avro.Schema;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** Every Kafka record becomes one envelope with its coordinates and headers. Task thread only. */
final class PromptDeserializer implements KafkaRecordDeserializationSchema<PromptEnvelope> {
    private static final long serialVersionUID = 1L;

    private final RecordFormat format;
    /** As text, since that is what serialises. */
    private final ArrayList<String> writerSchemas = new ArrayList<>();

    private transient PromptParser parser;

    PromptDeserializer(RecordFormat format, List<Schema> writerSchemas) {
        this.format = format;
        writerSchemas.forEach(schema -> this.writerSchemas.add(schema.toString()));
        // Says now, at the start, when a schema cannot be read.
        format.newPromptParser(writerSchemas);
    }

    @Override
    public void open(DeserializationSchema.InitializationContext context) {
        parser = format.newPromptParser(writerSchemas.stream()
                .map(json -> new Schema.Parser().parse(json))
                .toList());
    }

    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<PromptEnvelope> out) {
        Source source = new Source(null, null, record.topic(), record.partition(), record.offset());
        List<Header> headers = new ArrayList<>();
        for (org.apache.kafka.common.header.Header header : record.headers()) {
            byte[] value = header.value();
            headers.add(new Header(header.key(), value == null ? null : ByteBuffer.wrap(value)));
        }
        if (record.value() != null) {
            out.collect(parser.parse(record.value(), source, headers));
            return;
        }
        ErrorInfo error = new ErrorInfo(
                ErrorCodes.NULL_RECORD,
                "the record has no value",
                "Do not send tombstones to the prompts topic; a prompt cannot be taken back.");
        out.collect(new PromptEnvelope(source, ByteBuffer.allocate(0), headers, null, null, error));
    }

    @Override
    public TypeInformation<PromptEnvelope> getProducedType() {
        return new AvroTypeInfo<>(PromptEnvelope.class);
    }
}
