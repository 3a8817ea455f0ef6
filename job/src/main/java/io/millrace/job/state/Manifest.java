package io.millrace.job.state;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;

/**
 * What a job was started with, as far as its outputs depend on it: facts by name. A later start with other facts is another
 * job, and must not go on from this one's checkpoints.
 *
 * @param version format of the file
 * @param facts name to value
 */
public record Manifest(int version, Map<String, String> facts) {

    public static final int VERSION = 1;

    private static final Set<String> OWN_BEFORE_MANIFEST = Set.of("lock", ".manifest.json.tmp");

    public Manifest {
        facts = java.util.Collections.unmodifiableMap(new LinkedHashMap<>(facts));
    }

    public static Manifest of(Map<String, String> facts) {
        return new Manifest(VERSION, facts);
    }

    /**
     * Writes the manifest where there is none yet, else compares.
     *
     * @param resumable whether the directory holds anything to go on from; without that a manifest of other facts, left by a
     *     start that failed at once, is replaced
     * @return true if the directory was fresh, false if it holds a job with these facts
     * @throws StateException if it holds another job; the message lists every difference. Or if it holds files and no
     *     manifest: they are somebody's, and a job deletes what it takes for its own
     */
    public boolean claim(Path stateDirectory, boolean resumable) {
        Path file = stateDirectory.resolve("manifest.json");
        Optional<Manifest> recorded = AtomicFiles.read(file, Manifest.class);
        if (recorded.isEmpty()) {
            refuseForeign(stateDirectory);
            AtomicFiles.write(file, this);
            return true;
        }
        List<String> differences = recorded.get().differences(this);
        if (!differences.isEmpty() && !resumable) {
            AtomicFiles.write(file, this);
            return true;
        }
        if (!differences.isEmpty()) {
            throw new StateException(
                    "state directory " + stateDirectory + " belongs to another job and is not resumed:\n  "
                            + String.join("\n  ", differences)
                            + "\nGive the same input, model and options to resume it; to start over, delete the directory ("
                            + "rm -r " + stateDirectory + ") or choose another with --state.");
        }
        return false;
    }

    private static void refuseForeign(Path stateDirectory) {
        if (!Files.isDirectory(stateDirectory)) {
            return;
        }
        try (Stream<Path> entries = Files.list(stateDirectory)) {
            // A first start that was killed early leaves its lock, and perhaps half a manifest.
            Optional<Path> foreign = entries.filter(entry ->
                            !OWN_BEFORE_MANIFEST.contains(entry.getFileName().toString()))
                    .sorted()
                    .findFirst();
            if (foreign.isPresent()) {
                throw new StateException("state directory " + stateDirectory + " is not empty and not of a job ("
                        + foreign.get().getFileName() + " lies there, and no manifest.json); choose an empty or new"
                        + " directory with --state");
            }
        } catch (IOException e) {
            throw new StateException(
                    "state directory " + stateDirectory + " cannot be listed: " + e + "; choose another with --state",
                    e);
        }
    }

    /** One line for every fact that differs. */
    List<String> differences(Manifest now) {
        List<String> differences = new ArrayList<>();
        if (version != now.version) {
            differences.add("manifest version: was " + version + ", is " + now.version);
        }
        Set<String> names = new TreeSet<>(facts.keySet());
        names.addAll(now.facts.keySet());
        for (String name : names) {
            String was = facts.get(name);
            String is = now.facts.get(name);
            if (!java.util.Objects.equals(was, is)) {
                differences.add(name + ": was " + shown(was) + ", is " + shown(is));
            }
        }
        return differences;
    }

    private static String shown(String value) {
        return value == null ? "not set" : value;
    }
}
