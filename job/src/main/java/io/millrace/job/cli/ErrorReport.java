package io.millrace.job.cli;

import io.millrace.connect.kafka.KafkaSetupException;
import io.millrace.engine.InvalidConfigException;
import io.millrace.job.broker.BrokerException;
import io.millrace.job.cluster.ClusterException;
import io.millrace.job.state.StateException;
import io.millrace.model.InvalidModelException;
import io.millrace.sampling.InvalidSamplingException;
import io.millrace.tokenizer.ChatTemplateException;
import io.millrace.tokenizer.InvalidTokenizerException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import picocli.CommandLine;
import picocli.CommandLine.IExecutionExceptionHandler;
import picocli.CommandLine.IParameterExceptionHandler;
import picocli.CommandLine.MissingParameterException;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ParseResult;
import picocli.CommandLine.UnmatchedArgumentException;

/**
 * Turns exceptions into what the user reads: one message that says what is wrong and how to mend it, and an exit code: 2 for a
 * wrong command line, 1 for everything else.
 */
public final class ErrorReport implements IParameterExceptionHandler, IExecutionExceptionHandler {

    private static final Logger LOG = LoggerFactory.getLogger(ErrorReport.class);
    private static final List<Class<? extends Exception>> EXPECTED = List.of(
            BrokerException.class,
            ClusterException.class,
            StateException.class,
            InvalidModelException.class,
            InvalidTokenizerException.class,
            ChatTemplateException.class,
            KafkaSetupException.class,
            UncheckedIOException.class);

    /** Options of vLLM and llama.cpp that people try, and what serves here instead. */
    private static final Map<String, String> ELSEWHERE = Map.of(
            "--gpu-memory-utilization", "--kv-cache-memory-bytes",
            "--tensor-parallel-size", "--parallelism",
            "--ctx-size", "--max-model-len",
            "--threads", "--num-threads",
            "--batch-size", "--max-num-seqs",
            "--enable-prefix-caching", "--no-enable-prefix-caching");

    @Override
    public int handleParseException(ParameterException exception, String[] arguments) {
        CommandLine command = exception.getCommandLine();
        PrintWriter err = command.getErr();
        err.println(command.getCommandSpec().qualifiedName() + ": " + message(exception, arguments));
        err.println("See " + command.getCommandSpec().qualifiedName() + " --help");
        err.flush();
        return 2;
    }

    @Override
    public int handleExecutionException(Exception exception, CommandLine command, ParseResult parsed) {
        PrintWriter err = command.getErr();
        String name = command.getCommandSpec().qualifiedName();
        LOG.info("{} failed", name, exception);
        if (exception instanceof InvalidConfigException) {
            err.println(name + ": " + exception.getMessage());
            err.println("See " + name + " --help");
        } else if (exception instanceof InvalidSamplingException sampling) {
            err.println(name + ": " + sampling.getMessage() + "; " + sampling.remedy());
            err.println("See " + name + " --help");
        } else if (EXPECTED.stream().anyMatch(type -> type.isInstance(exception))) {
            err.println(name + ": " + exception.getMessage());
        } else {
            err.println(name + ": unexpected failure: " + exception);
            String log = System.getProperty("millrace.log.file");
            err.println(
                    log == null ? "Please report it with its stack trace." : "Please report it; details are in " + log);
        }
        err.flush();
        boolean usage = exception instanceof InvalidConfigException || exception instanceof InvalidSamplingException;
        return usage ? 2 : 1;
    }

    private static String message(ParameterException exception, String[] arguments) {
        CommandLine command = exception.getCommandLine();
        if (exception instanceof UnmatchedArgumentException unmatched
                && !unmatched.getUnmatched().isEmpty()) {
            return unknown(unmatched.getUnmatched().get(0), command);
        }
        if (exception instanceof MissingParameterException) {
            // A misspelt option is why one is missing; picocli would only speak of the latter.
            for (String argument : arguments) {
                String name = argument.replaceFirst("=.*", "");
                if (name.startsWith("--")
                        && !command.getCommandSpec().optionsMap().containsKey(name)) {
                    return unknown(name, command);
                }
            }
        }
        return exception.getMessage();
    }

    private static String unknown(String argument, CommandLine command) {
        String given = argument.replaceFirst("=.*", "");
        boolean option = given.startsWith("-");
        return (option ? "unknown option " : "unexpected argument ")
                + given
                + nearest(given, command, option)
                        .map(name -> "; did you mean " + name + "?")
                        .orElse("");
    }

    private static Optional<String> nearest(String given, CommandLine command, boolean option) {
        List<String> names = new ArrayList<>();
        if (option) {
            command.getCommandSpec().options().stream()
                    .filter(candidate -> !candidate.hidden())
                    .forEach(candidate -> names.addAll(List.of(candidate.names())));
            String elsewhere = ELSEWHERE.get(given);
            if (elsewhere != null && names.contains(elsewhere)) {
                return Optional.of(elsewhere);
            }
        } else {
            names.addAll(command.getSubcommands().keySet());
        }
        return NearestName.of(given, names);
    }
}
