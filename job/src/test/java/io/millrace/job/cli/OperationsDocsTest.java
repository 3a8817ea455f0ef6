package io.millrace.job.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** docs/operations.md explains every metric that the inference operator registers. */
class OperationsDocsTest {

    private static final Path DOCS = Path.of("..", "docs", "operations.md");
    private static final Path METRICS = Path.of(
            "..", "operators", "src", "main", "java", "io", "millrace", "operators", "inference", "EngineMetrics.java");
    private static final Pattern NAME = Pattern.compile("\\b(?:gauge|total|counter|histogram)\\(\\s*\"([a-z0-9_]+)\"");

    @Test
    void everyMetricIsExplained() throws IOException {
        Set<String> names = new TreeSet<>();
        NAME.matcher(Files.readString(METRICS)).results().forEach(name -> names.add(name.group(1)));
        assertTrue(names.size() > 20, "the search is broken if it finds only " + names);
        String page = Files.readString(DOCS);
        List<String> missing = names.stream()
                .filter(name ->
                        !Pattern.compile("[`.]" + name + "`").matcher(page).find())
                .toList();
        assertEquals(List.of(), missing, "metrics of " + METRICS + " that " + DOCS + " does not name");
    }
}
