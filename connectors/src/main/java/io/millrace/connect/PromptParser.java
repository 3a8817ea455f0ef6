package io.millrace.connect;

import io.millrace.schemas.Header;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Source;
import java.util.List;

/** Reads prompts of one format. One thread at a time. */
@FunctionalInterface
public interface PromptParser {
    /** The prompt in the bytes, or the error they make; never throws for any bytes. */
    PromptEnvelope parse(byte[] bytes, Source source, List<Header> headers);
}
