package io.millrace.kvcache;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;

/** The policy of {@link FreeBlocks} with plain collections, looked up anew each time. */
final class NaiveFreeBlocks {
    private final int numBlocks;
    private final int blocksPerRun;
    private final List<Integer> empty = new ArrayList<>();
    private final List<Integer> cached = new ArrayList<>();
    private final List<Integer> reserved = new ArrayList<>();
    private final List<Integer> emptyRuns = new ArrayList<>();
    private final List<Integer> fewRuns = new ArrayList<>();
    private final List<Integer> cachedRuns = new ArrayList<>();

    NaiveFreeBlocks(int numBlocks, int blocksPerRun) {
        this.numBlocks = numBlocks;
        this.blocksPerRun = blocksPerRun;
        int inRuns = numBlocks - numBlocks % blocksPerRun;
        IntStream.range(blocksPerRun == 1 ? 0 : inRuns, numBlocks).forEach(empty::add);
        if (blocksPerRun > 1) {
            IntStream.range(0, inRuns).forEach(empty::add);
            IntStream.range(0, inRuns / blocksPerRun).forEach(emptyRuns::add);
        }
    }

    boolean contains(Integer block) {
        return empty.contains(block) || cached.contains(block) || reserved.contains(block);
    }

    List<Integer> order() {
        List<Integer> order = new ArrayList<>(empty);
        order.addAll(cached);
        List<Integer> last = new ArrayList<>(reserved);
        Collections.reverse(last);
        order.addAll(last);
        return order;
    }

    /** What a table takes as its block of an index, after a previous block. */
    int take(Integer previous, int index) {
        int indexInTile = index % blocksPerRun;
        int block;
        if (indexInTile > 0 && isEmptyNeighbour(previous + 1)) {
            block = previous + 1;
        } else if (!wholeRuns().isEmpty() && (indexInTile == 0 || empty.isEmpty())) {
            List<Integer> run = run(wholeRuns().get(0));
            cached.removeAll(run);
            empty.removeAll(run);
            empty.addAll(0, run);
            block = run.get(0);
        } else {
            block = order().get(0);
        }
        remove(block);
        reserveBehind(block, index);
        return block;
    }

    private List<Integer> wholeRuns() {
        List<Integer> runs = new ArrayList<>(emptyRuns);
        runs.addAll(fewRuns);
        runs.addAll(cachedRuns);
        return runs;
    }

    private boolean isEmptyNeighbour(Integer block) {
        return block % blocksPerRun != 0 && (empty.contains(block) || reserved.contains(block));
    }

    private List<Integer> run(int run) {
        return IntStream.range(run * blocksPerRun, (run + 1) * blocksPerRun)
                .boxed()
                .toList();
    }

    /** Of a table whose last block, at an index, this is. */
    void reserveBehind(int block, int index) {
        for (int i = index % blocksPerRun + 1; i < blocksPerRun && isEmptyNeighbour(block + 1); i++) {
            block++;
            if (empty.remove((Integer) block)) {
                reserved.add(block);
            }
        }
    }

    void remove(Integer block) {
        empty.remove(block);
        cached.remove(block);
        reserved.remove(block);
        emptyRuns.remove((Integer) (block / blocksPerRun));
        fewRuns.remove((Integer) (block / blocksPerRun));
        cachedRuns.remove((Integer) (block / blocksPerRun));
    }

    void add(int block, boolean hasContent) {
        int end = block + 1;
        while (end % blocksPerRun != 0 && reserved.contains(end)) {
            end++;
        }
        while (--end > block) {
            reserved.remove((Integer) end);
            empty.add(0, end);
        }
        if (hasContent) {
            cached.add(block);
        } else {
            empty.add(0, block);
        }
        if (blocksPerRun == 1) {
            return;
        }
        int number = block / blocksPerRun;
        if ((number + 1) * blocksPerRun <= numBlocks && run(number).stream().allMatch(this::contains)) {
            int numCached = (int) run(number).stream().filter(cached::contains).count();
            if (numCached > 0) {
                (numCached * 4 > blocksPerRun ? cachedRuns : fewRuns).add(number);
            } else {
                emptyRuns.add(0, number);
                empty.removeAll(run(number));
                empty.addAll(run(number));
            }
        }
    }
}
