package io.millrace.scheduler;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.millrace.kvcache.BlockManager;
import io.millrace.kvcache.BlockTable;
import io.millrace.sampling.SamplingParams;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Proposed tokens in a step: what they may take, and that refused ones leave nothing behind. Blocks of 4 tokens. */
class SpeculativeSchedulingTest {
    private BlockManager blocks;
    private Scheduler scheduler;
    private long arrivals;

    private void create(int numBlocks, int budget) {
        blocks = new BlockManager(numBlocks, 4, true);
        scheduler = new Scheduler(new SchedulerConfig(8, budget), blocks);
    }

    /** A sequence that has computed its prompt and drawn one token. */
    private Sequence decoding(int... prompt) {
        SequenceGroup group = new SequenceGroup(new SequenceGroup.Settings(
                "r" + arrivals, prompt, SamplingParams.defaults(), 0, arrivals++, "", false, new int[0]));
        Sequence sequence = group.addSequence(0, new int[0]);
        scheduler.add(group);
        step();
        assertEquals(prompt.length, sequence.numComputedTokens());
        return sequence;
    }

    private static void propose(Sequence sequence, int... tokenIds) {
        for (int tokenId : tokenIds) {
            sequence.propose(tokenId, null);
        }
    }

    /** Plans a step. */
    private List<ScheduledSequence> plan() {
        return scheduler.schedule().sequences();
    }

    /** Computes the planned step: proposals are accepted as told, in order of service, and everyone draws a token. */
    private void compute(int... numAccepted) {
        ScheduledBatch batch = scheduler.schedule();
        List<ScheduledSequence> drawing =
                batch.sequences().stream().filter(ScheduledSequence::draws).toList();
        for (int i = 0; i < numAccepted.length; i++) {
            batch.sequences().get(i).sequence().acceptProposals(numAccepted[i]);
        }
        scheduler.markComputed(batch);
        drawing.forEach(scheduled -> scheduled.sequence().append(99));
        checkIntegrity();
    }

    private void step() {
        compute();
    }

    private void checkIntegrity() {
        blocks.checkIntegrity(
                scheduler.running().stream().map(Sequence::blockTable).toList());
    }

    @Test
    void refusedTokensLeaveNoTrace() {
        create(20, 64);
        Sequence sequence = decoding(1, 2, 3, 4, 5, 6); // and 99
        propose(sequence, 11, 12, 13, 14, 15, 16, 17);
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, 6, 99, 11, 12}, head(sequence, 9));
        compute(2);
        assertEquals(10, sequence.numTokens());
        assertEquals(9, sequence.numComputedTokens());
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, 6, 99, 11, 12, 99}, head(sequence, 10));
        assertEquals(3, sequence.blockTable().numBlocks(), "blocks of refused tokens are free");
        assertEquals(9, blocks.numUsedSlots());
        BlockTable other = new BlockTable();
        int[] refused = {1, 2, 3, 4, 5, 6, 99, 11, 12, 13, 14, 15, 16};
        assertEquals(8, blocks.allocate(other, refused, 13, "", true, 0), "the accepted block can be found, no other");
        blocks.free(other);
        propose(sequence, 21, 22);
        compute(0);
        assertEquals(10, sequence.numComputedTokens());
        assertEquals(11, sequence.numTokens());
    }

    private static int[] head(Sequence sequence, int count) {
        return IntStream.range(0, count).map(i -> sequence.tokenIds()[i]).toArray();
    }

    @Test
    void proposalsTakeHalfOfWhatTheDecodesLeaveOfTheBudget() {
        create(40, 12);
        Sequence first = decoding(1, 2, 3);
        Sequence second = decoding(4, 5, 6);
        propose(first, 11, 12, 13, 14);
        propose(second, 11, 12, 13, 14);
        List<ScheduledSequence> planned = plan();
        assertEquals(4, planned.get(0).numProposedTokens());
        assertEquals(1, planned.get(1).numProposedTokens(), "(12 - 2) / 2 - 4");
        assertEquals(1, second.numProposedTokens());
        assertEquals(2, planned.get(1).numTokens());
    }

    @Test
    void proposalsTakeNoBlockThatADecodeMayNeed() {
        create(4, 64);
        Sequence first = decoding(1, 2, 3);
        Sequence second = decoding(4, 5, 6, 7);
        // Both are to take a block for their next tokens, and then none is left.
        propose(first, 11, 12, 13, 14, 15);
        List<ScheduledSequence> planned = plan();
        assertEquals(2, planned.size());
        assertEquals(3, planned.get(0).numProposedTokens(), "what its own block has room for");
        assertEquals(0, scheduler.numPreemptions());
        assertEquals(2, second.blockTable().numBlocks());
    }

    @Test
    void aPreemptedSequenceDropsItsProposals() {
        create(3, 64);
        Sequence first = decoding(1, 2, 3);
        Sequence second = decoding(4, 5, 6);
        step(); // the first has taken the last free block, the second's is full
        propose(first, 11, 12);
        propose(second, 11, 12);
        assertEquals(1, plan().size());
        assertEquals(1, scheduler.numPreemptions());
        assertFalse(second.isRunning());
        assertEquals(0, second.numProposedTokens());
    }

    @Test
    void droppedProposalsGiveTheirBlocksBack() {
        create(20, 64);
        Sequence sequence = decoding(1, 2, 3);
        propose(sequence, 11, 12, 13, 14, 15);
        ScheduledBatch batch = scheduler.schedule();
        assertEquals(6, batch.numTokens());
        assertEquals(3, sequence.blockTable().numBlocks());
        scheduler.dropProposals(0);
        assertEquals(1, batch.numTokens());
        assertEquals(0, batch.sequences().get(0).numProposedTokens());
        assertEquals(1, sequence.blockTable().numBlocks());
        scheduler.markComputed(batch);
        sequence.append(98);
        checkIntegrity();
    }

    @Test
    void computedBlocksCannotBeCutOff() {
        create(20, 64);
        Sequence sequence = decoding(1, 2, 3, 4, 5, 6, 7, 8, 9);
        assertThrows(IllegalStateException.class, () -> blocks.truncate(sequence.blockTable(), 4));
        propose(sequence, 7);
        assertThrows(IllegalStateException.class, () -> sequence.append(1));
        assertThrows(IllegalStateException.class, () -> sequence.acceptProposals(2));
    }
}
