package io.millrace.operators.inference;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.apache.flink.core.fs.FSDataOutputStream;
import org.apache.flink.core.fs.FileStatus;
import org.apache.flink.core.fs.FileSystem;
import org.apache.flink.core.fs.FileSystem.WriteMode;
import org.apache.flink.core.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps a request that kills its engine, or the whole process, from restarting the job for ever.
 *
 * <p>It counts starts that ended badly (the engine died, or the process did) with no progress in a checkpoint since, in a
 * small durable file: a dead JVM forgets Flink's attempt numbers. After two of them the operator is cautious: it admits one
 * request at a time, in the whole job, and the request's uid is written to the {@code alone} file first. If the engine or the
 * process dies then, the next start finds the file, counts a strike and is cautious at once; two strikes with no progress in a
 * checkpoint between them condemn (one could be a coincidence: a fault of the device, a machine switched off). A condemned
 * request goes to the dead letters when it is met again. After one strike a request lets a few others go first: processes
 * killed from outside, soon after every start, thus strike one request after another and none twice.
 *
 * <p>Caution ends with a checkpoint once a condemned request was put aside, or as many requests passed alone as an engine
 * holds at once, so that the culprit must have been among them.
 *
 * <p>Task thread only; subtasks of one job share the directory.
 */
final class CrashGuard {
    private static final Logger LOG = LoggerFactory.getLogger(CrashGuard.class);
    private static final int MAX_BAD_STARTS = 2;
    private static final int CONDEMNING_STRIKES = 2;
    private static final int MAX_PASSES_BEFORE_SUSPECTS = 8;
    private static final String STRIKES_PREFIX = "strikes-";

    private final Path directory;
    private final FileSystem files;
    private final String subtask;
    private final String execution;
    private final int numRequestsToPass;
    private final int numPassesBeforeSuspects;
    private final int numStarts;
    private final boolean anyStrikes;
    private boolean cautious;
    private boolean engineDied;
    private boolean putAside;
    private int numPassed;
    private String alone;

    /**
     * @param execution names this execution attempt of the job, the same for all subtasks
     * @param numRequestsToPass requests that an engine holds at once
     */
    CrashGuard(String directory, int subtask, String execution, int numRequestsToPass) throws IOException {
        this.directory = new Path(directory);
        this.files = this.directory.getFileSystem();
        this.subtask = Integer.toString(subtask);
        this.execution = execution;
        this.numRequestsToPass = numRequestsToPass;
        // Fewer than end caution, so that a suspect has its turn before.
        this.numPassesBeforeSuspects = Math.min(MAX_PASSES_BEFORE_SUSPECTS, numRequestsToPass - 1);
        files.mkdirs(this.directory);
        numStarts = readInt(startsFile()) + 1;
        writeInt(startsFile(), numStarts);
        boolean diedAlone = countStrike();
        anyStrikes = anyStrikesFile();
        if (numStarts > MAX_BAD_STARTS || diedAlone) {
            cautious = true;
            LOG.warn(
                    "this is start {} with no progress since the engine or the process died: requests are admitted one at a "
                            + "time until the one at fault is found or {} have passed; throughput is low meanwhile",
                    numStarts,
                    numRequestsToPass);
        }
    }

    boolean isCautious() {
        return cautious;
    }

    /** Whether the request was found to kill its engine or process. */
    boolean isCondemned(String uid) throws IOException {
        return anyStrikes && readInt(strikesFile(uid)) >= CONDEMNING_STRIKES;
    }

    /** Whether a process died once while the request ran alone, and it has not been found innocent or guilty since. */
    boolean isSuspect(String uid) throws IOException {
        int numStrikes = anyStrikes ? readInt(strikesFile(uid)) : 0;
        return numStrikes > 0 && numStrikes < CONDEMNING_STRIKES;
    }

    /** Whether suspects must let others go first. */
    boolean postponesSuspects() {
        return cautious && anyStrikes && numPassed < numPassesBeforeSuspects;
    }

    /** A condemned request went to the dead letters. */
    void putAside() {
        putAside = true;
    }

    /** Takes the job's one place, durably, for a request; false while another subtask has it. */
    boolean tryEnter(String uid) throws IOException {
        // The lock covers subtasks of one process; between processes the read-back tells who won.
        synchronized (CrashGuard.class) {
            if (files.exists(aloneFile())) {
                return false;
            }
            writeLines(aloneFile(), execution, subtask, uid);
        }
        String[] lines = readLines(aloneFile());
        boolean won = lines.length == 3 && lines[1].equals(subtask) && lines[2].equals(uid);
        if (won) {
            alone = uid;
        }
        return won;
    }

    /** The request admitted alone has ended without harm. */
    void leave(String uid) throws IOException {
        if (uid.equals(alone)) {
            numPassed++;
            files.delete(strikesFile(uid), false);
            vacate();
        }
    }

    /** The engine died, perhaps of what it was running alone: the next start will count a strike against that. */
    void engineDied() {
        engineDied = true;
    }

    /**
     * A checkpoint completed that was taken after the engine had got further in this start: with everything it took over,
     * and with something at all.
     */
    void progressCheckpointed() throws IOException {
        if (alone != null) {
            // It got further than a checkpoint: a process that dies after that was more likely killed from outside, and
            // what always dies at one place is soon too near to it to get so far again.
            files.delete(strikesFile(alone), false);
        }
        if (cautious && !putAside && numPassed < numRequestsToPass) {
            return;
        }
        if (cautious) {
            cautious = false;
            vacate(); // what runs alone now gets company, and must not be blamed for it
            LOG.info("requests are admitted together again");
        }
        writeInt(startsFile(), 0);
    }

    /** The task ends. Unless the engine died, nothing that runs now is to blame, and the start does not count. */
    void close() throws IOException {
        if (!engineDied) {
            vacate();
            writeInt(startsFile(), Math.min(readInt(startsFile()), numStarts - 1));
        }
    }

    private void vacate() throws IOException {
        if (alone != null) {
            alone = null;
            files.delete(aloneFile(), false);
        }
    }

    /** Whether the engine or the process died while a request ran alone. */
    private boolean countStrike() throws IOException {
        synchronized (CrashGuard.class) {
            String[] lines = files.exists(aloneFile()) ? readLines(aloneFile()) : new String[0];
            if (lines.length != 3 || lines[0].equals(execution)) {
                return false;
            }
            int numStrikes = readInt(strikesFile(lines[2])) + 1;
            writeInt(strikesFile(lines[2]), numStrikes);
            files.delete(aloneFile(), false);
            LOG.warn(
                    "the engine or the process died while request {} ran alone: strike {} of {}, then it goes to the dead "
                            + "letters",
                    lines[2],
                    numStrikes,
                    CONDEMNING_STRIKES);
            return true;
        }
    }

    private boolean anyStrikesFile() throws IOException {
        for (FileStatus file : files.listStatus(directory)) {
            if (file.getPath().getName().startsWith(STRIKES_PREFIX)) {
                return true;
            }
        }
        return false;
    }

    private Path startsFile() {
        return new Path(directory, "starts-" + subtask);
    }

    private Path aloneFile() {
        return new Path(directory, "alone");
    }

    private Path strikesFile(String uid) {
        return new Path(directory, STRIKES_PREFIX + UUID.nameUUIDFromBytes(uid.getBytes(StandardCharsets.UTF_8)));
    }

    private int readInt(Path file) throws IOException {
        try (DataInputStream in = new DataInputStream(files.open(file))) {
            return in.readInt();
        } catch (FileNotFoundException | java.io.EOFException e) {
            return 0;
        }
    }

    private void writeInt(Path file, int value) throws IOException {
        try (FSDataOutputStream out = files.create(file, WriteMode.OVERWRITE)) {
            new DataOutputStream(out).writeInt(value);
            out.sync();
        }
    }

    private String[] readLines(Path file) throws IOException {
        try (DataInputStream in = new DataInputStream(files.open(file))) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8).split("\n");
        }
    }

    private void writeLines(Path file, String... lines) throws IOException {
        try (FSDataOutputStream out = files.create(file, WriteMode.OVERWRITE)) {
            out.write(String.join("\n", lines).getBytes(StandardCharsets.UTF_8));
            out.sync();
        }
    }
}
