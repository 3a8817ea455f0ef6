package io.millrace.scheduler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.kvcache.BlockManager;
import io.millrace.sampling.SamplingParams;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class SchedulerTest {
    private BlockManager blocks;
    private Scheduler scheduler;
    private long arrivals;
    private final List<SequenceGroup> groups = new ArrayList<>();

    private void create(int numBlocks, int maxNumSeqs, int budget, boolean prefixCaching) {
        blocks = new BlockManager(numBlocks, 16, prefixCaching);
        scheduler = new Scheduler(new SchedulerConfig(maxNumSeqs, budget), blocks);
    }

    /** Prompts differ by id so that nothing is found in the cache by chance. */
    private SequenceGroup add(String id, int numPromptTokens, int n, int priority, int... numOutputTokens) {
        int[] prompt =
                IntStream.range(0, numPromptTokens).map(i -> id.hashCode() + i).toArray();
        SequenceGroup group = group(id, prompt, n, priority, numOutputTokens);
        scheduler.add(group);
        return group;
    }

    private SequenceGroup group(String id, int[] prompt, int n, int priority, int... numOutputTokens) {
        SequenceGroup group = new SequenceGroup(new SequenceGroup.Settings(
                id,
                prompt,
                SamplingParams.builder().n(n).maxTokens(1000).build(),
                priority,
                arrivals++,
                "",
                false,
                new int[0]));
        for (int i = 0; i < n; i++) {
            int[] output = new int[i < numOutputTokens.length ? numOutputTokens[i] : 0];
            Arrays.fill(output, 1000 + i);
            group.addSequence(i, output);
        }
        groups.add(group);
        return group;
    }

    /** Plans and computes a step; every draw is a token that differs by sample. Returns what ran. */
    private String step() {
        ScheduledBatch batch = scheduler.schedule();
        StringBuilder text = new StringBuilder();
        List<Sequence> drawing = new ArrayList<>();
        for (ScheduledSequence scheduled : batch.sequences()) {
            Sequence sequence = scheduled.sequence();
            text.append(text.isEmpty() ? "" : " ")
                    .append(sequence.group().id())
                    .append(sequence.sample())
                    .append(':')
                    .append(scheduled.firstPosition())
                    .append('-')
                    .append(scheduled.endPosition());
            if (!scheduled.forks().isEmpty()) {
                text.append("+").append(scheduled.forks().size());
            }
            if (scheduled.draws()) {
                drawing.add(sequence);
            }
            scheduled.forks().stream().filter(f -> f.numOutputTokens() == 0).forEach(drawing::add);
        }
        scheduler.markComputed(batch);
        drawing.forEach(sequence -> sequence.append(2000 + sequence.sample()));
        blocks.checkIntegrity(
                scheduler.running().stream().map(Sequence::blockTable).toList());
        assertEquals(
                groups.stream().mapToInt(SequenceGroup::numWaiting).sum(), scheduler.numWaiting(), "waiting sequences");
        return text.toString();
    }

    @Test
    void decodesComeFirstThenPromptsInChunks() {
        create(100, 8, 32, true);
        add("a", 10, 1, 0);
        assertEquals("a0:0-10", step());
        add("b", 50, 1, 0);
        add("c", 20, 1, 0);
        assertEquals("a0:10-11 b0:0-31", step());
        assertEquals("a0:11-12 b0:31-50 c0:0-12", step());
        assertEquals("a0:12-13 b0:50-51 c0:12-20", step());
        assertEquals("a0:13-14 b0:51-52 c0:20-21", step());
    }

    @Test
    void promptsGoByPriorityThenArrivalEvenWhenOneIsHalfDone() {
        create(100, 8, 16, true);
        add("late", 40, 1, 1);
        assertEquals("late0:0-16", step());
        add("first", 10, 1, 0);
        add("urgent", 10, 1, -1);
        assertEquals("urgent0:0-10 first0:0-6", step());
        assertEquals("urgent0:10-11 first0:6-10 late0:16-27", step());
    }

    @Test
    void promptsWhosePrefixIsBeingLoadedGetWhatIsLeft() {
        create(100, 8, 32, true);
        SequenceGroup loading = add("loading", 40, 1, -5);
        loading.setLoadingPrefix(true);
        add("plain", 30, 1, 0);
        assertEquals("plain0:0-30 loading0:0-2", step());
        assertEquals("plain0:30-31 loading0:2-33", step());
        loading.setLoadingPrefix(false);
        add("other", 30, 1, 0);
        assertEquals("plain0:31-32 loading0:33-40 other0:0-24", step());
    }

    @Test
    void inTheOrderOfServiceALoadingPromptWaitsForNobody() {
        blocks = new BlockManager(100, 16, true);
        scheduler = new Scheduler(new SchedulerConfig(8, 32, false), blocks);
        SequenceGroup loading = add("loading", 40, 1, -5);
        loading.setLoadingPrefix(true);
        add("plain", 30, 1, 0);
        assertEquals("loading0:0-32", step());
        assertEquals("loading0:32-40 plain0:0-24", step());
    }

    @Test
    void aLoadingPromptIsNotAdmittedBeforeAPlainOneThatFoundNoRoom() {
        create(4, 8, 64, true);
        add("a", 30, 1, 0);
        step();
        SequenceGroup loading = add("loading", 10, 1, 0);
        loading.setLoadingPrefix(true);
        add("plain", 40, 1, 0);
        assertEquals("a0:30-31", step());
    }

    @Test
    void samplesForkWhenThePromptIsComplete() {
        create(20, 8, 64, true);
        SequenceGroup group = add("a", 100, 3, 0);
        assertEquals("a0:0-64", step());
        assertEquals("a0:64-100+2", step());
        assertEquals(7, blocks.numUsedBlocks());
        for (Sequence sequence : group.sequences()) {
            assertEquals(1, sequence.numOutputTokens());
        }
        assertEquals("a0:100-101 a1:100-101 a2:100-101", step());
        assertEquals(9, blocks.numUsedBlocks());
    }

    @Test
    void restoredSamplesForkAtThePromptAndRecomputeTheirOwnTokens() {
        create(30, 8, 64, false);
        add("a", 40, 3, 0, 20, 0, 5);
        assertEquals("a0:0-40+2", step());
        assertEquals("a1:40-41 a0:40-60 a2:40-45", step());
        assertEquals("a0:60-61 a1:41-42 a2:45-46", step());
    }

    @Test
    void samplesBeyondMaxNumSeqsFollowAsOthersFinish() {
        create(30, 2, 64, true);
        SequenceGroup group = add("a", 20, 4, 0);
        assertEquals("a0:0-20+1", step());
        assertEquals("a0:20-21 a1:20-21", step());
        scheduler.finish(group.sequences().get(0));
        assertEquals("a1:21-22 a2:16-20", step());
        assertEquals("a1:22-23 a2:20-21", step());
        scheduler.finish(group.sequences().get(0));
        assertEquals("a2:21-22 a3:16-20", step());
    }

    @Test
    void lateSamplesShareFullPromptBlocksWithoutACacheToo() {
        create(30, 2, 64, false);
        SequenceGroup group = add("a", 20, 3, 0);
        step();
        scheduler.finish(group.sequences().get(0));
        assertEquals("a1:20-21 a2:16-20", step());
    }

    @Test
    void theNewestRequestIsPreemptedFirstAndRecomputed() {
        create(5, 8, 64, false);
        SequenceGroup a = add("a", 31, 1, 0);
        SequenceGroup b = add("b", 15, 1, 0);
        assertEquals("a0:0-31 b0:0-15", step());
        for (int i = 0; i < 1; i++) {
            assertEquals("a0:31-32 b0:15-16", step());
        }
        assertEquals("a0:32-33 b0:16-17", step());
        assertEquals(0, blocks.numFreeBlocks());
        for (int position = 33; position < 48; position++) {
            step();
        }
        assertEquals("a0:48-49", step(), "b gives up all of its blocks");
        assertEquals(1, scheduler.numPreemptions());
        assertTrue(b.sequences().get(0).isWaiting());
        assertEquals(15 + 18, b.sequences().get(0).numTokens(), "generated tokens are kept");
        assertEquals(4, blocks.numUsedBlocks());
        scheduler.finish(a.sequences().get(0));
        assertEquals("b0:0-33", step());
        assertFalse(a.sequences().contains(b.sequences().get(0)));
    }

    @Test
    void lowerPriorityIsPreemptedBeforeNewer() {
        create(4, 8, 64, false);
        SequenceGroup old = add("old", 16, 1, 1);
        SequenceGroup urgent = add("urgent", 16, 1, 0);
        assertEquals("urgent0:0-16 old0:0-16", step());
        assertEquals("urgent0:16-17 old0:16-17", step());
        for (int i = 17; i < 32; i++) {
            step();
        }
        assertEquals("urgent0:32-33", step());
        assertTrue(old.sequences().get(0).isWaiting());
        assertTrue(urgent.sequences().get(0).isRunning());
    }

    @Test
    void noAdmissionWhereRunningSequencesNeedTheLastBlocks() {
        create(6, 8, 64, false);
        add("a", 40, 1, 0);
        add("b", 40, 1, 0);
        assertEquals("a0:0-40", step(), "b's three blocks would leave none for a");
        assertEquals(0, scheduler.numPreemptions());
    }

    @Test
    void sequencesNeverExceedTheBudget() {
        create(100, 50, 3, true);
        add("a", 5, 9, 0);
        assertEquals("a0:0-3", step());
        assertEquals("a0:3-5+2", step());
        assertEquals("a0:5-6 a1:5-6 a2:5-6", step());
        assertEquals(3, scheduler.numRunning());
    }

    @Test
    void generatedTokensAreFoundAfterPreemption() {
        create(6, 8, 64, true);
        SequenceGroup a = add("a", 31, 1, 0);
        SequenceGroup b = add("b", 31, 1, 0);
        while (scheduler.numPreemptions() == 0) {
            step();
        }
        assertEquals(49, b.sequences().get(0).numTokens());
        scheduler.remove(a);
        assertEquals("b0:32-49", step(), "its third block served the other, the first two stayed");
    }

    @Test
    void aFaultedGroupLeavesTheRestOfTheBatch() {
        create(20, 8, 64, true);
        SequenceGroup a = add("a", 10, 2, 0);
        add("b", 10, 1, 0);
        ScheduledBatch batch = scheduler.schedule();
        scheduler.removeFromBatch(a);
        assertEquals(1, batch.sequences().size());
        assertEquals(10, batch.numTokens());
        scheduler.markComputed(batch);
        batch.sequences().get(0).sequence().append(7);
        assertEquals("b0:10-11", step());
        assertTrue(a.sequences().isEmpty());
    }

    @Test
    void copiesOfABatchThatFaultedAwayAreMadeWithTheNext() {
        create(20, 8, 3, true);
        SequenceGroup a = add("a", 3, 1, 0);
        step();
        add("b", 2, 2, 0, 3, 3);
        assertEquals("a0:3-4 b0:0-2+1", step());
        ScheduledBatch batch = scheduler.schedule();
        assertEquals(1, batch.numCopies());
        assertEquals(2, batch.sequences().size());
        scheduler.removeFromBatch(a);
        scheduler.removeFromBatch(groups.get(1));
        assertTrue(batch.isEmpty());
        add("c", 3, 1, 0);
        assertEquals(1, scheduler.schedule().numCopies());
    }

    @Test
    void aGroupIsAddedOnce() {
        create(20, 8, 64, true);
        SequenceGroup a = add("a", 10, 1, 0);
        assertThrows(IllegalArgumentException.class, () -> scheduler.add(a));
    }
}
