package io.millrace.connect.json;

import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.Header;
import io.millrace.schemas.Prompt;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Source;
import java.nio.ByteBuffer;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads prompts from JSON. Strict: a field that is misspelt, given twice or of the wrong type is an error that says
 * which and what was meant, since a setting that is silently dropped costs its sender a whole run. Stateless; any
 * thread.
 */
public final class PromptJson {
    private static final Logger LOG = LoggerFactory.getLogger(PromptJson.class);

    private PromptJson() {}

    /**
     * Reads one record.
     *
     * @param line the record's bytes, UTF-8, one JSON object; kept by the envelope without a copy, so not to be changed
     * @param source where the record was read
     * @param headers the record's headers, empty for files
     * @return the prompt, or the error met with the request_id where that could be read; never throws for any bytes
     */
    public static PromptEnvelope parse(byte[] line, Source source, List<Header> headers) {
        try {
            Prompt prompt = PromptReader.read(RecordText.decode(line));
            return envelope(line, source, headers, prompt.getRequestId(), prompt, null);
        } catch (RecordException e) {
            return envelope(line, source, headers, RecordText.findRequestId(line), null, e.toErrorInfo());
        } catch (RuntimeException e) {
            // A defect here would otherwise restart the job on the same record for ever.
            LOG.error("Reading the record at {} failed unexpectedly; it becomes a dead letter.", source, e);
            ErrorInfo error = new ErrorInfo(
                    ErrorCodes.PARSER_DEFECT,
                    "reading the record failed unexpectedly: " + e,
                    "Report this record to the makers of Millrace; it is a defect of the parser.");
            return envelope(line, source, headers, null, null, error);
        }
    }

    /** The envelope of a record that has no readable value. */
    public static PromptEnvelope failed(byte[] original, Source source, List<Header> headers, ErrorInfo error) {
        return envelope(original, source, headers, RecordText.findRequestId(original), null, error);
    }

    private static PromptEnvelope envelope(
            byte[] original, Source source, List<Header> headers, String requestId, Prompt prompt, ErrorInfo error) {
        return new PromptEnvelope(source, ByteBuffer.wrap(original), headers, requestId, prompt, error);
    }
}
