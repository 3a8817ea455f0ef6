package io.millrace.bench.ceiling;

import io.millrace.plan.ModelShape;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.dnnl.dnnl_version_t;
import org.bytedeco.dnnl.global.dnnl;

/** The ceilings of one run, made when first asked for. Used by one thread. */
public final class Ceilings implements AutoCloseable {
    private final ModelShape shape;
    private final boolean bfloat16;
    private final Crew crew;
    private final Map<Long, GemmCeiling> gemms = new LinkedHashMap<>();
    private GemmCeiling fixedGemms;
    private final List<Runnable> kept = new ArrayList<>(); // until all is closed
    private ReadBandwidth readBandwidth;
    private Float32Rate float32Rate;

    /** @param bfloat16 whether the model computes in bfloat16 */
    public Ceilings(ModelShape shape, boolean bfloat16, int numThreads) {
        this.shape = shape;
        this.bfloat16 = bfloat16;
        this.crew = new Crew(numThreads);
    }

    /** Whether oneDNN multiplies bfloat16 natively here. */
    public static boolean hasBfloat16() {
        return Product.hasBfloat16();
    }

    public static String libraryVersion() {
        dnnl_version_t version = dnnl.dnnl_version();
        return version.major() + "." + version.minor() + "." + version.patch();
    }

    /** All products of a step alone; the last one asked for stays in memory, the others are freed. */
    public GemmCeiling gemms(int rows, int logitsRows) {
        long key = (long) rows << 32 | logitsRows;
        GemmCeiling known = gemms.get(key);
        if (known == null) {
            gemms.values().forEach(GemmCeiling::close);
            gemms.clear();
            known = GemmCeiling.prepare(shape, rows, logitsRows, bfloat16, crew);
            gemms.put(key, known);
        }
        return known;
    }

    /**
     * The same products in the way that reproducible bits leave: fixed shares of the columns, float32 results, and several
     * calls of these rows each. The last one asked for stays in memory.
     */
    public GemmCeiling fixedGemms(int rows, int numCalls, int logitsRows) {
        closeFixed();
        fixedGemms = GemmCeiling.prepareFixed(shape, rows, numCalls, logitsRows, bfloat16, crew);
        return fixedGemms;
    }

    private void closeFixed() {
        if (fixedGemms != null) {
            fixedGemms.close();
            fixedGemms = null;
        }
    }

    /** Attention's products of a decode step over prompts whose samples share them, with nothing between them. */
    public AttentionCeiling sharedAttentionProducts(int numPrompts, int promptTokens, int numSamples) {
        return keep(AttentionCeiling.productsOfStep(shape, numPrompts, promptTokens, numSamples, bfloat16, crew));
    }

    /** Attention of such a step, with the fastest way to turn scores into weights. */
    public AttentionCeiling sharedAttention(int numPrompts, int promptTokens, int numSamples) {
        return keep(AttentionCeiling.ofStep(shape, numPrompts, promptTokens, numSamples, bfloat16, crew));
    }

    /** Attention of a prompt over itself, with the fastest way to turn scores into weights. */
    public AttentionCeiling promptAttention(int numTokens) {
        return keep(AttentionCeiling.ofPrompt(shape, numTokens, bfloat16, crew));
    }

    /** What drawing from so many rows of logits must at least do. */
    public LogitsCeiling logits(int rows) {
        LogitsCeiling made = LogitsCeiling.prepare(rows, shape.vocabSize(), crew);
        kept.add(made::close);
        return made;
    }

    private AttentionCeiling keep(AttentionCeiling made) {
        kept.add(made::close);
        return made;
    }

    public ReadBandwidth readBandwidth() {
        if (readBandwidth == null) {
            readBandwidth = new ReadBandwidth(crew);
        }
        return readBandwidth;
    }

    public Float32Rate float32Rate() {
        if (float32Rate == null) {
            float32Rate = new Float32Rate(crew);
        }
        return float32Rate;
    }

    @Override
    public void close() {
        gemms.values().forEach(GemmCeiling::close);
        closeFixed();
        kept.forEach(Runnable::run);
        if (float32Rate != null) {
            float32Rate.close();
        }
        crew.close();
    }
}
