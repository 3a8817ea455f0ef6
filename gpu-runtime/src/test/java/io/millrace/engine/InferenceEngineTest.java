package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.millrace.backend.Dtype;
import io.millrace.backend.fake.FakeModel;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.SamplingParams;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class InferenceEngineTest {
    @TempDir
    Path directory;

    @Test
    void servesADirectoryWithNothingButAConfigOnTheFakeDevice() throws IOException {
        FakeModel.write(directory, 512);
        Files.delete(directory.resolve("model.safetensors"));
        EngineConfig config = new EngineConfig(
                directory.toString(), "fake", Dtype.AUTO, 0, 8, 64, 1 << 20, true, 16, 0, LogprobsMode.RAW_LOGPROBS);
        try (InferenceEngine engine = InferenceEngine.open(config)) {
            engine.submit(new Request(
                    "a",
                    new int[] {5, 6, 7},
                    SamplingParams.builder().n(3).maxTokens(10).ignoreEos(true).build()));
            List<StepReport.Finished> finished = new ArrayList<>();
            int numTokens = 0;
            for (StepReport report = engine.step(); report != null; report = engine.step()) {
                engine.checkIntegrity();
                for (StepReport.SampleDelta delta : report.deltas()) {
                    numTokens += delta.tokenIds().length;
                    if (delta.finished() != null) {
                        finished.add(delta.finished());
                    }
                }
            }
            assertEquals(30, numTokens);
            assertEquals(3, finished.size());
        }
    }
}
