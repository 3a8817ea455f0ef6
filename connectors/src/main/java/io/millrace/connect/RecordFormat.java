package io.millrace.connect;

import io.millrace.connect.avro.PromptAvro;
import io.millrace.connect.avro.ResultAvro;
import io.millrace.connect.json.CompletionJson;
import io.millrace.connect.json.DeadLetterJson;
import io.millrace.connect.json.JsonFields;
import io.millrace.connect.json.PromptJson;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import java.util.List;
import org.apache.avro.Schema;

/** The form of the records on a stream's topics. */
public enum RecordFormat {
    /** One JSON object a record. */
    JSON {
        @Override
        public PromptParser newPromptParser(List<Schema> writerSchemas) {
            return PromptJson::parse;
        }

        @Override
        public byte[] toBytes(Completion completion) {
            return CompletionJson.toBytes(completion, JsonFields.ALL);
        }

        @Override
        public byte[] toBytes(DeadLetter letter) {
            return DeadLetterJson.toBytes(letter);
        }
    },
    /** Avro's single-object encoding. */
    AVRO {
        @Override
        public PromptParser newPromptParser(List<Schema> writerSchemas) {
            PromptAvro parser = new PromptAvro(writerSchemas);
            return parser::parse;
        }

        @Override
        public byte[] toBytes(Completion completion) {
            return ResultAvro.toBytes(completion);
        }

        @Override
        public byte[] toBytes(DeadLetter letter) {
            return ResultAvro.toBytes(letter);
        }
    };

    /**
     * A parser for one reader.
     *
     * @param writerSchemas schemas that writers use beside this version's own; only Avro has such
     */
    public abstract PromptParser newPromptParser(List<Schema> writerSchemas);

    /** The completion as the value of a record. */
    public abstract byte[] toBytes(Completion completion);

    /** The dead letter as the value of a record. */
    public abstract byte[] toBytes(DeadLetter letter);
}
