package io.millrace.operators.inference;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A start is a new guard over the same directory; a dead process is one that is not closed. */
class CrashGuardTest {
    private static final int NUM_TO_PASS = 3;

    @TempDir
    Path directory;

    private int numExecutions;

    @Test
    void twoBadStartsMakeTheThirdCautious() throws IOException {
        assertFalse(start().isCautious());
        assertFalse(start().isCautious());
        assertTrue(start().isCautious());
    }

    @Test
    void progressInACheckpointForgivesEarlierStarts() throws IOException {
        start();
        CrashGuard second = start();
        second.progressCheckpointed();
        assertFalse(start().isCautious());
    }

    @Test
    void anEngineThatDiesTwiceCondemnsWhatItRanAlone() throws IOException {
        CrashGuard guard = cautious();
        for (int i = 0; i < 2; i++) {
            assertTrue(guard.isCautious());
            assertFalse(guard.isCondemned("poison"));
            assertTrue(guard.tryEnter("poison"));
            guard.engineDied();
            guard.close();
            guard = start();
        }
        assertTrue(guard.isCondemned("poison"));
        assertFalse(guard.isCondemned("innocent"));
    }

    @Test
    void aRequestThatPassesTheSecondTimeIsForgiven() throws IOException {
        CrashGuard guard = cautious();
        assertTrue(guard.tryEnter("unlucky"));
        guard.engineDied();
        guard.close();
        CrashGuard next = start();
        assertTrue(next.tryEnter("unlucky"));
        next.leave("unlucky");
        assertTrue(next.tryEnter("unlucky"));
        next.engineDied();
        next.close();
        assertFalse(start().isCondemned("unlucky"));
    }

    @Test
    void aProcessThatDiesTwiceCondemns() throws IOException {
        assertTrue(cautious().tryEnter("poison"));
        CrashGuard afterOne = start();
        assertFalse(afterOne.isCondemned("poison"));
        assertTrue(afterOne.tryEnter("poison"));
        assertTrue(start().isCondemned("poison"));
    }

    @Test
    void aSuspectLetsAFewOthersGoFirstAndHasItsTurnBeforeCautionEnds() throws IOException {
        assertTrue(cautious().tryEnter("suspect"));
        CrashGuard guard = start();
        assertTrue(guard.isSuspect("suspect"));
        assertFalse(guard.isSuspect("other"));
        for (int i = 0; i < NUM_TO_PASS - 1; i++) {
            assertTrue(guard.postponesSuspects());
            assertTrue(guard.tryEnter("r" + i));
            guard.leave("r" + i);
        }
        assertFalse(guard.postponesSuspects());
        assertTrue(guard.isCautious());
        assertTrue(guard.tryEnter("suspect"));
        CrashGuard next = start();
        assertTrue(next.isCondemned("suspect"));
        assertFalse(next.isSuspect("suspect"), "a condemned request is put aside when its turn comes");
    }

    @Test
    void aRequestThatGotFurtherInACheckpointIsNotBlamedForEarlierDeaths() throws IOException {
        assertTrue(cautious().tryEnter("long"));
        for (int kill = 0; kill < 5; kill++) {
            CrashGuard guard = start();
            assertTrue(guard.isCautious());
            assertFalse(guard.isCondemned("long"), "killed from outside " + (kill + 1) + " times");
            assertTrue(guard.tryEnter("long"));
            guard.progressCheckpointed();
        }
        CrashGuard stuck = start();
        assertTrue(stuck.tryEnter("long"));
        assertTrue(start().isCondemned("long"), "twice without getting further");
    }

    @Test
    void aProcessThatDiesOnARequestAloneMakesTheNextStartCautiousWhateverWasCheckpointed() throws IOException {
        CrashGuard guard = cautious();
        guard.putAside();
        guard.progressCheckpointed();
        assertFalse(guard.isCautious());
        CrashGuard next = cautious();
        assertTrue(next.tryEnter("poison"));
        assertTrue(start().isCautious());
    }

    @Test
    void startsThatEndInAnOrderlyWayDoNotCount() throws IOException {
        for (int i = 0; i < 5; i++) {
            CrashGuard guard = start();
            assertFalse(guard.isCautious());
            guard.close();
        }
    }

    @Test
    void anOrderlyEndBlamesNobody() throws IOException {
        CrashGuard guard = cautious();
        assertTrue(guard.tryEnter("innocent"));
        guard.close();
        CrashGuard next = start();
        assertTrue(next.tryEnter("innocent"));
        next.leave("innocent");
        assertFalse(start().isCondemned("innocent"));
    }

    @Test
    void onlyOneRequestOfTheWholeJobRunsAlone() throws IOException {
        start();
        start();
        CrashGuard first = guard(0, "x");
        CrashGuard second = guard(1, "x");
        assertTrue(first.tryEnter("a"));
        assertFalse(second.tryEnter("b"));
        // A sibling that opens later in the same execution blames nobody either.
        CrashGuard third = guard(2, "x");
        assertFalse(third.tryEnter("c"));
        first.leave("a");
        assertTrue(second.tryEnter("b"));
    }

    @Test
    void cautionEndsOnlyWhenTheCulpritMustHavePassed() throws IOException {
        CrashGuard guard = cautious();
        guard.progressCheckpointed();
        assertTrue(guard.isCautious());
        for (int i = 0; i < NUM_TO_PASS; i++) {
            assertTrue(guard.tryEnter("r" + i));
            guard.leave("r" + i);
        }
        guard.progressCheckpointed();
        assertFalse(guard.isCautious());
    }

    @Test
    void cautionEndsThoughARequestRunsAloneAndBlamesItNoMore() throws IOException {
        CrashGuard guard = cautious();
        for (int i = 0; i < NUM_TO_PASS; i++) {
            assertTrue(guard.tryEnter("r" + i));
            guard.leave("r" + i);
        }
        assertTrue(guard.tryEnter("next")); // under load there is always one
        guard.progressCheckpointed();
        assertFalse(guard.isCautious());
        assertFalse(start().isCautious(), "the process died with company in the engine, once");
    }

    @Test
    void cautionEndsOnceTheCulpritIsPutAside() throws IOException {
        CrashGuard guard = cautious();
        guard.putAside();
        assertTrue(guard.isCautious());
        guard.progressCheckpointed();
        assertFalse(guard.isCautious());
    }

    private CrashGuard cautious() throws IOException {
        start();
        start();
        return start();
    }

    private CrashGuard start() throws IOException {
        return guard(0, "execution-" + numExecutions++);
    }

    private CrashGuard guard(int subtask, String execution) throws IOException {
        return new CrashGuard(directory.toUri().toString(), subtask, execution, NUM_TO_PASS);
    }
}
