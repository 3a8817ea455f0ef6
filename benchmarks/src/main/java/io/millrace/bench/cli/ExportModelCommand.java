package io.millrace.bench.cli;

import io.millrace.bench.model.BenchModel;
import io.millrace.bench.model.ModelExport;
import io.millrace.plan.ModelShape;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code millrace bench export-model}. */
@Command(
        name = "export-model",
        sortOptions = false,
        description = {
            "Writes random bfloat16 weights of a shape as a Hugging Face directory with a trivial byte-level tokenizer, so"
                    + " that any other engine can be measured on the same model."
        })
final class ExportModelCommand implements Callable<Integer> {
    @Option(
            names = "--shape",
            required = true,
            paramLabel = "SHAPE",
            description = "Named shape (smollm2-135m, qwen2.5-0.5b, llama-3.2-1b, ...) or config.json.")
    String shape;

    @Option(names = "--out", required = true, paramLabel = "DIR", description = "Directory to write.")
    Path out;

    @Option(names = "--seed", paramLabel = "NUMBER", description = "Of the weights. Default: ${DEFAULT-VALUE}.")
    long seed = 1;

    @Mixin
    HelpMixin help;

    @Spec
    CommandSpec spec;

    @Override
    public Integer call() {
        ModelShape found = BenchModel.shape(shape);
        try {
            ModelExport.write(found, out, seed);
        } catch (IOException e) {
            throw new UncheckedIOException(out + " could not be written: " + e, e);
        }
        spec.commandLine()
                .getOut()
                .printf(
                        "%s: %,d parameters of random bfloat16 weights in %s%n",
                        found.name(), found.numParameters(), out);
        spec.commandLine().getOut().flush();
        return 0;
    }
}
