package io.millrace.runner;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import io.millrace.backend.BatchInput;
import io.millrace.backend.LogitsRow;
import io.millrace.backend.fake.FakeBackend;
import io.millrace.kvcache.BlockManager;
import io.millrace.sampling.SamplingParams;
import io.millrace.scheduler.ScheduledBatch;
import io.millrace.scheduler.Scheduler;
import io.millrace.scheduler.SchedulerConfig;
import io.millrace.sequence.SequenceGroup;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class ModelRunnerTest {
    private final BlockManager blocks = new BlockManager(20, 4, true);
    private final Scheduler scheduler = new Scheduler(new SchedulerConfig(8, 32), blocks);
    private final ModelRunner runner = new ModelRunner(new FakeBackend(20, 4, 1000, List.of(2)), 4, 32, 8);

    private long arrivals;

    private SequenceGroup add(int[] prompt, boolean scores, SamplingParams params) {
        SequenceGroup group = new SequenceGroup(
                new SequenceGroup.Settings("g" + prompt[0], prompt, params, 0, arrivals++, "", scores, new int[] {2}));
        for (int i = 0; i < params.n(); i++) {
            group.addSequence(i, new int[0]);
        }
        scheduler.add(group);
        return group;
    }

    private static int[] head(int[] array, int count) {
        return Arrays.copyOf(array, count);
    }

    @Test
    void laysTokensPositionsAndSlotsEndToEnd() {
        SequenceGroup first = add(new int[] {10, 11, 12, 13, 14, 15}, false, params(1));
        add(new int[] {20, 21}, false, params(1));
        ScheduledBatch batch = scheduler.schedule();
        BatchInput input = runner.prepare(batch);
        assertEquals(8, input.numTokens());
        assertEquals(2, input.numSequences());
        assertArrayEquals(new int[] {10, 11, 12, 13, 14, 15, 20, 21}, head(input.tokenIds(), 8));
        assertArrayEquals(new int[] {0, 1, 2, 3, 4, 5, 0, 1}, head(input.positions(), 8));
        assertArrayEquals(new int[] {0, 1, 2, 3, 4, 5, 8, 9}, head(input.slotMapping(), 8));
        assertArrayEquals(new int[] {0, 6, 8}, head(input.queryStarts(), 3));
        assertArrayEquals(new int[] {6, 2}, head(input.contextLengths(), 2));
        assertEquals(5, input.logitsRows().get(0).tokenIndex());
        assertEquals(7, input.logitsRows().get(1).tokenIndex());
        assertSame(first.sequences().get(0), runner.rowSequence(0));

        int[] arrays = input.tokenIds();
        scheduler.markComputed(batch);
        first.sequences().get(0).append(16);
        scheduler.remove(batch.sequences().get(1).sequence().group());
        BatchInput next = runner.prepare(scheduler.schedule());
        assertSame(arrays, next.tokenIds(), "arrays are reused");
        assertArrayEquals(new int[] {16}, head(next.tokenIds(), 1));
        assertArrayEquals(new int[] {6}, head(next.slotMapping(), 1));
    }

    @Test
    void allSamplesDrawFromTheLastPromptTokenWithIndicesOfTheirOwn() {
        add(new int[] {10, 11, 12}, false, params(3));
        BatchInput input = runner.prepare(scheduler.schedule());
        assertEquals(3, input.logitsRows().size());
        for (int i = 0; i < 3; i++) {
            LogitsRow row = input.logitsRows().get(i);
            assertEquals(2, row.tokenIndex());
            assertEquals(40 + i, row.sampling().sampleIndex());
            assertEquals(0, row.sampling().outputPosition());
            assertEquals(3, row.sampling().numTokens());
            assertArrayEquals(new int[] {2}, row.sampling().suppressedTokenIds(), "min_tokens is not reached");
            assertEquals(-1, runner.scoredPosition(i));
        }
    }

    @Test
    void promptRowsScoreTheNextToken() {
        add(new int[] {10, 11, 12}, true, params(1));
        BatchInput input = runner.prepare(scheduler.schedule());
        assertEquals(3, input.logitsRows().size());
        assertNull(input.logitsRows().get(0).sampling());
        assertEquals(11, input.logitsRows().get(0).targetTokenId());
        assertEquals(1, runner.scoredPosition(0));
        assertEquals(12, input.logitsRows().get(1).targetTokenId());
        assertEquals(4, input.logitsRows().get(1).numLogprobs());
        assertEquals(2, input.logitsRows().get(2).tokenIndex());
        assertEquals(-1, runner.scoredPosition(2));
    }

    @Test
    void sharersOfBlocksAreAdjacent() {
        SequenceGroup a = add(new int[] {10, 11, 12, 13, 14}, false, params(1));
        SequenceGroup b = add(new int[] {20, 21}, false, params(1));
        run();
        SequenceGroup c = add(new int[] {10, 11, 12, 13, 99}, false, params(1));
        ScheduledBatch batch = scheduler.schedule();
        runner.prepare(batch);
        List<SequenceGroup> order =
                batch.sequences().stream().map(s -> s.sequence().group()).toList();
        assertEquals(List.of(a, c, b), order);
    }

    private void run() {
        ScheduledBatch batch = scheduler.schedule();
        int[] ids = runner.run(batch).tokenIds();
        scheduler.markComputed(batch);
        for (int row = 0; row < runner.numRows(); row++) {
            runner.rowSequence(row).append(ids[row]);
        }
    }

    private static SamplingParams params(int n) {
        return SamplingParams.builder()
                .n(n)
                .sampleIndex(40)
                .maxTokens(10)
                .minTokens(1)
                .numPromptLogprobs(4)
                .build();
    }
}
