package io.millrace.job.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.Prompt;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.avro.Schema;
import org.junit.jupiter.api.Test;

/** docs/formats.md names every field of the records that users see, with its type, and every error code that the sources hold. */
class FormatsDocsTest {

    private static final Path DOCS = Path.of("..", "docs", "formats.md");
    private static final Pattern ROW = Pattern.compile("^\\| `([^`]+)` \\| ([^|]*?) +\\|", Pattern.MULTILINE);

    /** Makes a RequestFailure from its arguments; the name is common elsewhere. */
    private static final String FACTORY = " failure(";

    /** What makes an error record, and where among its arguments the code stands. */
    private static final Map<String, Integer> CODE_ARGUMENTS = Map.of(
            "new ErrorInfo(",
            0,
            "new RecordException(",
            0,
            "new InvalidPromptException(",
            0,
            "new RequestFailure(",
            1,
            FACTORY,
            1);

    private static final Pattern CONSTANT =
            Pattern.compile("static final String ([A-Z0-9_]+)\\s*=\\s*\"([a-z0-9_]+)\";");

    @Test
    void everyFieldIsDocumentedWithItsType() throws IOException {
        Map<String, Schema> records = new LinkedHashMap<>();
        for (Schema root : List.of(Prompt.getClassSchema(), Completion.getClassSchema(), DeadLetter.getClassSchema())) {
            collectRecords(root, records);
        }
        assertTrue(records.size() > 8, records.keySet().toString());
        String page = Files.readString(DOCS);
        for (Schema record : records.values()) {
            Map<String, String> documented = rows(section(page, "### " + record.getName()));
            Map<String, String> expected = new TreeMap<>();
            record.getFields().forEach(field -> expected.put(field.name(), typeText(field.schema())));
            assertEquals(expected, documented, "fields and types under \"### " + record.getName() + "\" of " + DOCS);
        }
    }

    @Test
    void everyErrorCodeOfTheSourcesIsDocumentedAndNoOther() throws IOException {
        Set<String> codes = new TreeSet<>();
        List<String> unread = new ArrayList<>();
        List<String> sources = new ArrayList<>();
        for (String module : List.of("connectors", "operators", "gpu-runtime", "job")) {
            try (Stream<Path> files = Files.walk(Path.of("..", module, "src", "main", "java"))) {
                for (Path file :
                        files.filter(f -> f.toString().endsWith(".java")).toList()) {
                    sources.add(Files.readString(file));
                }
            }
        }
        Map<String, String> constants = new TreeMap<>();
        sources.forEach(
                source -> CONSTANT.matcher(source).results().forEach(r -> constants.put(r.group(1), r.group(2))));
        for (String source : sources) {
            CODE_ARGUMENTS.forEach((call, argument) -> {
                if (!source.contains(call) || call.equals(FACTORY) && !source.contains("RequestFailure")) {
                    return;
                }
                for (int at = source.indexOf(call); at >= 0; at = source.indexOf(call, at + 1)) {
                    resolve(argument(source, at + call.length(), argument), constants, codes, unread);
                }
            });
        }
        assertEquals(
                List.of(), unread, "codes that are neither a literal, a constant nor passed on from another record");
        assertTrue(codes.size() >= 20, "the search is broken if it finds only " + codes);
        assertEquals(
                codes, rows(section(Files.readString(DOCS), "## Error codes")).keySet());
    }

    /** Literals and constants are codes; an expression in lower case passes on a code that was made elsewhere. */
    private static void resolve(
            String argument, Map<String, String> constants, Set<String> codes, List<String> unread) {
        String name = argument.substring(argument.lastIndexOf('.') + 1);
        if (argument.matches("\"[a-z0-9_]+\"")) {
            codes.add(argument.substring(1, argument.length() - 1));
        } else if (constants.containsKey(name)) {
            codes.add(constants.get(name));
        } else if (!argument.matches("(String )?[a-zA-Z.()]*[cC]ode(\\(\\))?")) {
            unread.add(argument);
        }
    }

    /** One argument of a call as text; commas inside of parentheses and strings do not part arguments. */
    private static String argument(String source, int start, int index) {
        int depth = 0;
        boolean inString = false;
        int begin = start;
        int left = index;
        for (int i = start; i < source.length(); i++) {
            char c = source.charAt(i);
            if (c == '"' && source.charAt(i - 1) != '\\') {
                inString = !inString;
            }
            if (inString) {
                continue;
            }
            if (depth == 0 && (c == ',' || c == ')')) {
                if (left-- == 0 || c == ')') {
                    return source.substring(begin, i).strip();
                }
                begin = i + 1;
            }
            depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        }
        throw new IllegalStateException("a call without an end");
    }

    private static void collectRecords(Schema schema, Map<String, Schema> records) {
        switch (schema.getType()) {
            case RECORD -> {
                if (records.putIfAbsent(schema.getName(), schema) == null) {
                    schema.getFields().forEach(field -> collectRecords(field.schema(), records));
                }
            }
            case UNION -> schema.getTypes().forEach(branch -> collectRecords(branch, records));
            case ARRAY -> collectRecords(schema.getElementType(), records);
            case MAP -> collectRecords(schema.getValueType(), records);
            default -> {}
        }
    }

    private static String typeText(Schema schema) {
        return switch (schema.getType()) {
            case RECORD -> schema.getName();
            case ARRAY -> "array of " + typeText(schema.getElementType());
            case MAP -> "map to " + typeText(schema.getValueType());
            case UNION ->
                String.join(
                        " or ",
                        schema.getTypes().stream()
                                .filter(branch -> branch.getType() != Schema.Type.NULL)
                                .map(FormatsDocsTest::typeText)
                                .toList());
            default -> schema.getType().getName();
        };
    }

    private static String section(String page, String title) {
        Matcher heading = Pattern.compile("^" + Pattern.quote(title) + "$", Pattern.MULTILINE)
                .matcher(page);
        assertTrue(heading.find(), DOCS + " has no heading \"" + title + "\"");
        int end = page.indexOf("\n##", heading.end());
        String text = page.substring(heading.end(), end < 0 ? page.length() : end);
        assertFalse(text.isBlank(), title);
        return text;
    }

    private static Map<String, String> rows(String section) {
        Map<String, String> rows = new TreeMap<>();
        ROW.matcher(section)
                .results()
                .forEach(row -> rows.put(row.group(1), row.group(2).strip()));
        return rows;
    }
}
