package io.millrace.job.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;
import picocli.CommandLine.Model.ArgGroupSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;

/**
 * docs/configuration.md is made from the options themselves: {@code -Dmillrace.write.docs=true} writes it, else it is compared, so
 * that no option can be missing or outdated there.
 */
class ConfigurationDocsTest {

    private static final Path DOCS = Path.of("..", "docs", "configuration.md");

    @Test
    void everyOptionIsDocumentedAsItIs() throws IOException {
        String made = markdown();
        if (Boolean.getBoolean("millrace.write.docs")) {
            Files.writeString(DOCS, made);
        }
        assertEquals(
                made,
                Files.readString(DOCS),
                "write it anew: ./mvnw -pl job -am test -Dtest=ConfigurationDocsTest -Dmillrace.write.docs=true");
    }

    @Test
    void everyOptionHasADescription() {
        for (CommandLine command :
                MillraceCommand.newCommandLine().getSubcommands().values()) {
            for (OptionSpec option : command.getCommandSpec().options()) {
                assertFalse(
                        String.join("", option.description()).isBlank(),
                        command.getCommandName() + " " + option.longestName());
            }
        }
    }

    private static String markdown() {
        StringBuilder page = new StringBuilder();
        page.append("# Configuration\n\n");
        page.append("Made from the options of the command line by `ConfigurationDocsTest`; do not edit by hand.\n\n");
        page.append("Precedence of sampling settings: the request's own, then the command line, then the model's\n");
        page.append("`generation_config.json`, then built-in values.\n\n");
        page.append("| environment | meaning |\n|---|---|\n");
        page.append("| `JAVA_HOME` | the JDK (17 or newer) to build and run with; else `java` on `PATH` |\n");
        page.append(
                "| `MILLRACE_JAVA_OPTS` | options for the JVM, for example `-Xmx8g`; by default the heap takes up to"
                        + " 50 % of the memory, of which the KV cache is a part |\n");
        page.append("| `MILLRACE_HOME` | logs, demo files, the broker's data and the state of streams; default"
                + " `.millrace` beside the launcher |\n");
        for (CommandLine command :
                MillraceCommand.newCommandLine().getSubcommands().values()) {
            appendCommand(page, command.getCommandSpec());
        }
        return page.toString();
    }

    private static void appendCommand(StringBuilder page, CommandSpec command) {
        page.append("\n## millrace ").append(command.name()).append("\n");
        for (String line : command.usageMessage().description()) {
            page.append(line).append("\n");
        }
        List<OptionSpec> grouped = new ArrayList<>();
        command.argGroups().forEach(group -> grouped.addAll(group.options()));
        appendOptions(
                page,
                command.options().stream()
                        .filter(option -> !grouped.contains(option))
                        .toList());
        for (ArgGroupSpec group : command.argGroups()) {
            page.append("\n### ")
                    .append(group.heading().replace("%n", "").replaceFirst(":$", ""))
                    .append("\n");
            appendOptions(page, group.options());
        }
    }

    private static void appendOptions(StringBuilder page, List<OptionSpec> options) {
        page.append("\n| option | meaning |\n|---|---|\n");
        for (OptionSpec option : options) {
            if (option.hidden()) {
                continue;
            }
            Object initial = option.initialValue();
            String meaning = String.join(" ", option.description())
                    .replace("${DEFAULT-VALUE}", option.defaultValue() != null ? option.defaultValue() : "" + initial);
            page.append("| `")
                    .append(String.join("`, `", option.names()))
                    .append(option.arity().max() == 0 ? "" : " " + option.paramLabel())
                    .append("` | ")
                    .append(option.required() ? "Required. " : "")
                    .append(meaning.replace("|", "\\|"))
                    .append(" |\n");
        }
    }
}
