package io.millrace.connect.file;

import io.millrace.connect.json.CompletionJson;
import io.millrace.connect.json.DeadLetterJson;
import io.millrace.connect.json.JsonFields;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import java.nio.file.Path;
import org.apache.flink.api.common.serialization.Encoder;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.streaming.api.functions.sink.filesystem.OutputFileConfig;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;

/**
 * Writes results as JSON Lines to part files in a directory, exactly once: the lines between two checkpoints become one
 * file, which shows under its final name when the checkpoint that covers it is complete. {@link JsonlMerge} makes one
 * file of them.
 */
public final class JsonlSink {
    static final String COMPLETIONS = "completions";
    static final String ERRORS = "errors";
    static final String PART_SUFFIX = ".jsonl";

    private JsonlSink() {}

    /** Completions into part files {@code completions-*.jsonl}. */
    public static FileSink<Completion> completions(Path directory, JsonFields fields) {
        return sink(directory, COMPLETIONS, (completion, out) -> {
            out.write(CompletionJson.toBytes(completion, fields));
            out.write('\n');
        });
    }

    /** Dead letters into part files {@code errors-*.jsonl}; the directory may be that of the completions. */
    public static FileSink<DeadLetter> deadLetters(Path directory) {
        return sink(directory, ERRORS, (letter, out) -> {
            out.write(DeadLetterJson.toBytes(letter));
            out.write('\n');
        });
    }

    private static <T> FileSink<T> sink(Path directory, String prefix, Encoder<T> encoder) {
        return FileSink.forRowFormat(
                        new org.apache.flink.core.fs.Path(
                                directory.toAbsolutePath().toUri()),
                        encoder)
                .withBucketAssigner(new BasePathBucketAssigner<>())
                .withRollingPolicy(OnCheckpointRollingPolicy.build())
                .withOutputFileConfig(new OutputFileConfig(prefix, PART_SUFFIX))
                .build();
    }
}
