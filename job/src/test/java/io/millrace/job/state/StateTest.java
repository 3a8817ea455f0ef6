package io.millrace.job.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StateTest {

    @TempDir
    Path directory;

    @Test
    void aManifestNamesEveryDifferenceAndHowToStartOver() {
        Manifest manifest = Manifest.of(Map.of("--seed", "0", "input size", "12 bytes"));
        assertTrue(manifest.claim(directory, false));
        assertFalse(manifest.claim(directory, true), "the same job again");
        Manifest other = Manifest.of(Map.of("--seed", "1", "input size", "12 bytes", "--dtype", "auto"));
        StateException refused = assertThrows(StateException.class, () -> other.claim(directory, true));
        assertTrue(refused.getMessage().contains("--dtype: was not set, is auto"), refused.getMessage());
        assertTrue(refused.getMessage().contains("--seed: was 0, is 1"), refused.getMessage());
        assertFalse(refused.getMessage().contains("input size"), refused.getMessage());
        assertTrue(refused.getMessage().contains("rm -r " + directory), refused.getMessage());
        assertTrue(other.claim(directory, false), "with nothing to resume nothing is lost");
        assertThrows(StateException.class, () -> manifest.claim(directory, true));
    }

    @Test
    void aDirectoryWithOtherFilesIsNotTakenOver() throws Exception {
        RunLock.acquire(directory).close();
        Files.writeString(directory.resolve(".manifest.json.tmp"), "{");
        assertTrue(Manifest.of(Map.of()).claim(directory, false), "left by a start that was killed at once");
        Files.delete(directory.resolve("manifest.json"));
        Files.createDirectory(directory.resolve("parts"));
        StateException refused =
                assertThrows(StateException.class, () -> Manifest.of(Map.of()).claim(directory, false));
        assertTrue(refused.getMessage().contains("parts lies there"), refused.getMessage());
        assertTrue(Files.exists(directory.resolve("parts")));
    }

    @Test
    void oneHolderAtATimeAndAStaleFileHoldsNobodyUp() throws Exception {
        Files.writeString(directory.resolve("lock"), "999999999");
        RunLock lock = RunLock.acquire(directory);
        StateException held = assertThrows(StateException.class, () -> RunLock.acquire(directory));
        assertTrue(
                held.getMessage().contains("process " + ProcessHandle.current().pid()), held.getMessage());
        lock.close();
        RunLock.acquire(directory).close();
    }

    @Test
    void filesAreReplacedWhole() throws Exception {
        Path file = directory.resolve("a").resolve("f.json");
        assertEquals(Optional.empty(), AtomicFiles.read(file));
        AtomicFiles.write(file, Map.of("x", 1));
        AtomicFiles.write(file, Map.of("x", 2));
        assertEquals(2, AtomicFiles.read(file).orElseThrow().path("x").asInt());
        assertEquals(List.of("f.json"), List.of(file.getParent().toFile().list()));
    }
}
