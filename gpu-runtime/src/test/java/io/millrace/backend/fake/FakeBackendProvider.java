package io.millrace.backend.fake;

import io.millrace.backend.Backend;
import io.millrace.backend.BackendConfig;
import io.millrace.backend.BackendProvider;
import io.millrace.model.ModelDirectory;
import java.nio.file.Path;

/**
 * Opens {@link FakeBackend}s: device {@code fake}. Reads no weights; a model directory that has only a config.json is
 * completed with zeros.
 */
public final class FakeBackendProvider implements BackendProvider {
    @Override
    public String name() {
        return "fake";
    }

    @Override
    public ModelDirectory openModel(Path directory) {
        FakeModel.complete(directory);
        return ModelDirectory.open(directory);
    }

    @Override
    public Backend open(BackendConfig config) {
        return new FakeBackend(
                FakeBackend.numBlocks(config.kvCacheMemoryBytes(), config.blockSize()),
                config.blockSize(),
                config.model().spec().vocabSize(),
                config.model().spec().eosTokenIds());
    }
}
