package io.millrace.bench.ceiling;

import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_default_flags;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_destroy;

import io.millrace.bench.ceiling.RowFunction.Kind;
import java.util.List;
import org.bytedeco.dnnl.dnnl_stream;

/**
 * What drawing by probabilities must at least do: read every float32 logit and take its exponential. By oneDNN, each thread
 * with a share of the rows; its softmax in place is tried against exponentials alone in place, and the faster stands. Nothing is
 * searched, sorted or drawn. Used by one thread.
 */
public final class LogitsCeiling implements Pass {
    private static final int NUM_TRIES = 5;

    private final Crew crew;
    private final Kind kind;
    private final dnnl_stream[] streams;
    private final Tensor[] logits; // null for members without rows
    private final RowFunction[] functions;
    private List<Tried> tried = List.of();

    /** Prepares the faster way. */
    static LogitsCeiling prepare(int rows, int vocabSize, Crew crew) {
        Trial<LogitsCeiling> trial = new Trial<>(NUM_TRIES);
        for (Kind kind : Kind.values()) {
            trial.add(new LogitsCeiling(kind, rows, vocabSize, crew));
        }
        LogitsCeiling faster = trial.fastest();
        faster.tried = trial.tried();
        return faster;
    }

    private LogitsCeiling(Kind kind, int rows, int vocabSize, Crew crew) {
        this.crew = crew;
        this.kind = kind;
        int numMembers = crew.numThreads();
        streams = new dnnl_stream[numMembers];
        logits = new Tensor[numMembers];
        functions = new RowFunction[numMembers];
        crew.run(member -> {
            int mine = rows * (member + 1) / numMembers - rows * member / numMembers;
            if (mine > 0) {
                streams[member] = new dnnl_stream();
                Product.check(dnnl_stream_create(streams[member], Product.engine(), dnnl_stream_default_flags));
                logits[member] = new Tensor(mine, vocabSize, false, member);
                functions[member] = new RowFunction(
                        kind, mine, vocabSize, List.of(logits[member]), false, null, false, streams[member]);
            }
        });
        seconds(); // touches the memory
    }

    /** One pass over all rows, in seconds. */
    @Override
    public double seconds() {
        return crew.run(member -> {
            if (functions[member] != null) {
                functions[member].run(0);
            }
        });
    }

    /** Which way was faster. */
    @Override
    public String describe() {
        return kind == Kind.SOFTMAX ? "softmax in place" : "exponentials in place";
    }

    /** Both that were tried. */
    public List<Tried> tried() {
        return tried;
    }

    @Override
    public void close() {
        crew.run(member -> {
            if (functions[member] != null) {
                functions[member].close();
                logits[member].close();
                dnnl_stream_destroy(streams[member]);
            }
        });
    }
}
