package io.millrace.bench.ceiling;

import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_default_flags;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_destroy;

import io.millrace.bench.ceiling.AttentionTile.Way;
import io.millrace.plan.ModelShape;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.dnnl.dnnl_stream;

/**
 * Attention alone, by oneDNN: of a decode step over prompts whose samples share them, or of a prompt over itself. For the step,
 * every layer, prompt and KV head has keys and values of its own in memory, in the layout that oneDNN likes best, and the
 * queries of all samples are multiplied together. For the prompt, only tiles of queries and keys at or before them are
 * computed, and keys and values stay in cache. Nothing waits. Used by one thread.
 */
public final class AttentionCeiling implements Pass {
    private static final int NUM_TRIES = 3;
    private static final int[] QUERIES_PER_TILE = {32, 64};

    private final Crew crew;
    private final Plan plan;
    private final Way way;
    private final dnnl_stream[] streams;
    private final AttentionTile[][] tiles; // [members][tiles]
    private List<Tried> tried = List.of();

    /** Rows of queries with all of a KV head's keys so far, so many times. */
    private record Tile(int rows, int numKeys, int numRuns) {}

    /**
     * What a pass computes.
     *
     * @param ownMatrices whether every run of a tile has keys and values of its own
     */
    private record Plan(String name, int headDim, boolean ownMatrices, List<Tile> tiles) {}

    /** Attention's two products of a step alone, with nothing between them. */
    static AttentionCeiling productsOfStep(
            ModelShape shape, int numPrompts, int promptTokens, int numSamples, boolean bfloat16, Crew crew) {
        Plan plan = step(shape, numPrompts, promptTokens, numSamples);
        return new AttentionCeiling(plan, Way.PRODUCTS_ALONE, bfloat16, crew);
    }

    /** The same with the fastest way to turn scores into weights. */
    static AttentionCeiling ofStep(
            ModelShape shape, int numPrompts, int promptTokens, int numSamples, boolean bfloat16, Crew crew) {
        return fastest(List.of(step(shape, numPrompts, promptTokens, numSamples)), bfloat16, crew);
    }

    /**
     * Of a prompt of this many tokens, with the fastest way and the better tile. The last layer is left out: only the last
     * token has attention there.
     */
    static AttentionCeiling ofPrompt(ModelShape shape, int numTokens, boolean bfloat16, Crew crew) {
        List<Plan> plans = new ArrayList<>();
        for (int queries : QUERIES_PER_TILE) {
            plans.add(prompt(shape, numTokens, queries));
        }
        return fastest(plans, bfloat16, crew);
    }

    private static Plan step(ModelShape shape, int numPrompts, int promptTokens, int numSamples) {
        int rows = numSamples * (shape.numQueryHeads() / shape.numKvHeads());
        int numRuns = shape.numLayers() * numPrompts * shape.numKvHeads();
        return new Plan("", shape.headDim(), true, List.of(new Tile(rows, promptTokens, numRuns)));
    }

    private static Plan prompt(ModelShape shape, int numTokens, int queries) {
        int numRuns = (shape.numLayers() - 1) * shape.numKvHeads();
        List<Tile> tiles = new ArrayList<>();
        for (int start = 0; start < numTokens; start += queries) {
            int end = Math.min(numTokens, start + queries);
            int rows = (end - start) * (shape.numQueryHeads() / shape.numKvHeads());
            tiles.add(new Tile(rows, end, numRuns));
        }
        return new Plan(", " + queries + " tokens a tile", shape.headDim(), false, tiles);
    }

    private static AttentionCeiling fastest(List<Plan> plans, boolean bfloat16, Crew crew) {
        Trial<AttentionCeiling> trial = new Trial<>(NUM_TRIES);
        for (Plan plan : plans) {
            for (Way way : Way.values()) {
                if (way != Way.PRODUCTS_ALONE) {
                    trial.add(new AttentionCeiling(plan, way, bfloat16, crew));
                }
            }
        }
        AttentionCeiling fastest = trial.fastest();
        fastest.tried = trial.tried();
        return fastest;
    }

    private AttentionCeiling(Plan plan, Way way, boolean bfloat16, Crew crew) {
        this.crew = crew;
        this.plan = plan;
        this.way = way;
        streams = new dnnl_stream[crew.numThreads()];
        tiles = new AttentionTile[crew.numThreads()][plan.tiles().size()];
        crew.run(member -> {
            streams[member] = new dnnl_stream();
            Product.check(dnnl_stream_create(streams[member], Product.engine(), dnnl_stream_default_flags));
            for (int i = 0; i < plan.tiles().size(); i++) {
                Tile tile = plan.tiles().get(i);
                int numMatrices = plan.ownMatrices() ? numRuns(i, member) : 1;
                tiles[member][i] = new AttentionTile(
                        tile.rows(), plan.headDim(), tile.numKeys(), numMatrices, bfloat16, way, streams[member]);
            }
        });
        seconds(); // touches the memory
    }

    /** A member's runs of a tile; what cannot be shared evenly goes around. */
    private int numRuns(int tile, int member) {
        int numMembers = crew.numThreads();
        int share = (tile + member) % numMembers;
        long total = plan.tiles().get(tile).numRuns();
        return (int) (total * (share + 1) / numMembers - total * share / numMembers);
    }

    /** One pass over everything, in seconds. */
    @Override
    public double seconds() {
        return crew.run(member -> {
            for (int i = 0; i < tiles[member].length; i++) {
                int numRuns = numRuns(i, member);
                for (int run = 0; run < numRuns; run++) {
                    tiles[member][i].run(plan.ownMatrices() ? run : 0);
                }
            }
        });
    }

    /** Floating-point operations of one pass's products, queries with later keys of the same tile included. */
    public double flops() {
        return plan.tiles().stream()
                .mapToDouble(tile -> 2.0 * 2 * tile.rows() * plan.headDim() * tile.numKeys() * tile.numRuns())
                .sum();
    }

    /** Which way was fastest. */
    @Override
    public String describe() {
        return way.description() + plan.name();
    }

    /** All that were tried; empty for products alone. */
    public List<Tried> tried() {
        return tried;
    }

    @Override
    public void close() {
        crew.run(member -> {
            for (AttentionTile tile : tiles[member]) {
                tile.close();
            }
            dnnl_stream_destroy(streams[member]);
        });
    }
}
