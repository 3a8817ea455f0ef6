package io.millrace.job.cli;

import io.millrace.job.batch.BatchOptions;
import io.millrace.job.batch.BatchRun;
import io.millrace.job.cluster.Signals;
import io.millrace.job.cluster.StopSignal;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code millrace batch}. */
@Command(
        name = "batch",
        sortOptions = false,
        synopsisHeading = "Usage: ",
        customSynopsis = "millrace batch --model DIR --input FILE --output FILE [options]",
        description = {
            "Answers every prompt of a JSON Lines file.",
            "",
            "The output has one line per request and sample, and one error line per bad input line, in the input's order."
                    + " Killed at any moment, the same command goes on from the last checkpoint, and the output is the same"
                    + " as if nothing had happened."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  echo '{\"request_id\": \"a\", \"messages\": [{\"role\": \"user\", \"content\": \"Compute 86 + 37.\"}]}' > in.jsonl",
            "  ./millrace batch --model models/millrace-tiny --input in.jsonl --output out.jsonl",
            "  ./millrace batch --model DIR --input in.jsonl --output out.jsonl --summary s.json \\",
            "      --temperature 0.7 --max-tokens 512 --kv-cache-memory-bytes 4g --checkpoint-interval 30s",
            "",
            "An input line: exactly one of prompt (text), messages (chat), prompt_token_ids; besides them request_id,",
            "sampling {n, temperature, top_p, top_k, min_p, max_tokens, stop, seed, logprobs, ...}, priority, metadata.",
            "Exit codes: 0 done, 1 failed or stopped (the same command goes on), 2 wrong command line."
        })
final class BatchCommand implements Callable<Integer> {

    @Option(names = "--model", required = true, paramLabel = "DIR", description = "Hugging Face model directory.")
    Path model;

    @Option(names = "--input", required = true, paramLabel = "FILE", description = "JSON Lines file of prompts.")
    Path input;

    @Option(
            names = "--output",
            required = true,
            paramLabel = "FILE",
            description = "JSON Lines file of results to write.")
    Path output;

    @Option(names = "--summary", paramLabel = "FILE", description = "JSON file for the batch's figures.")
    Path summary;

    @Option(
            names = "--state",
            paramLabel = "DIR",
            description = "Checkpoints and part files. Default: beside the output, with .millrace added to its name.")
    Path state;

    @Option(
            names = "--allow-fingerprint-change",
            description =
                    "Go on from a checkpoint taken with another CPU's arithmetic. Results may then differ in bits.")
    boolean allowFingerprintChange;

    @ArgGroup(validate = false, heading = "%nEngine:%n")
    EngineOptions engine = new EngineOptions();

    @ArgGroup(validate = false, heading = "%nPrefix tier:%n")
    PrefixTierOptions tier = new PrefixTierOptions();

    @ArgGroup(validate = false, heading = "%nSampling, for requests that do not say (above generation_config.json):%n")
    SamplingOptions sampling = new SamplingOptions();

    @ArgGroup(validate = false, heading = "%nJob:%n")
    JobOptions job = new JobOptions();

    @Mixin
    HelpOption help;

    @Override
    @SuppressWarnings("try") // the handler is installed, not used
    public Integer call() throws Exception {
        Path stateDirectory = state != null ? state : BatchOptions.defaultStateDirectory(output);
        BatchOptions options = new BatchOptions(
                input,
                output,
                Optional.ofNullable(summary),
                engine.toConfig(model).withTier(tier.toConfig()),
                tier.toOptions(),
                sampling.toDefaults(),
                engine.seed,
                job.toClusterOptions(stateDirectory, tier.kind),
                allowFingerprintChange);
        StopSignal stop = new StopSignal();
        try (Signals signals = Signals.onStop(stop::request)) {
            return new BatchRun(options, System.err, Console.isTerminal(), stop).run() ? 0 : 1;
        }
    }
}
