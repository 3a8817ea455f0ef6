package io.millrace.backend.cpu;

import io.millrace.backend.Backend;
import io.millrace.backend.BackendConfig;
import io.millrace.backend.BackendProvider;
import io.millrace.backend.Dtype;
import io.millrace.engine.InvalidConfigException;
import io.millrace.kernels.KernelChoice;
import io.millrace.kernels.Kernels;
import io.millrace.model.ModelSpec;
import io.millrace.model.ModelSpec.Weight;
import io.millrace.model.StorageType;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Opens models on the CPU. dtype auto is bfloat16 where the checkpoint is BF16 or F16 and the CPU multiplies bfloat16
 * (AVX-512 BF16 or AMX), else float32, over weights that stay as a BF16 checkpoint has them; bfloat16 asked for on a CPU without is refused, since oneDNN would emulate it
 * slowly.
 */
public final class CpuBackendProvider implements BackendProvider {
    private static final Logger LOG = LoggerFactory.getLogger(CpuBackendProvider.class);
    private static final AtomicBoolean KERNELS_LOGGED = new AtomicBoolean();

    private final boolean sharesReads;
    private final LogitsObserver observer;

    /** As {@code --device cpu} has it. */
    public CpuBackendProvider() {
        this(true);
    }

    /**
     * A provider for measuring what shared reads save; outputs are the same either way.
     *
     * @param sharesReads whether attention reads KV blocks that several sequences share once for all of them
     */
    public CpuBackendProvider(boolean sharesReads) {
        this(sharesReads, LogitsObserver.NONE);
    }

    /** A provider whose backends show their logits, for measuring what a format costs; outputs are the same. */
    public CpuBackendProvider(LogitsObserver observer) {
        this(true, observer);
    }

    private CpuBackendProvider(boolean sharesReads, LogitsObserver observer) {
        this.sharesReads = sharesReads;
        this.observer = observer;
    }

    @Override
    public String name() {
        return "cpu";
    }

    @Override
    public Backend open(BackendConfig config) {
        KernelChoice choice = KernelChoice.best();
        if (KERNELS_LOGGED.compareAndSet(false, true)) {
            LOG.info("kernels: {}; oneDNN {}: {}", choice.kernels().name(), OneDnn.version(), OneDnn.instructionSet());
            if (!choice.remark().isEmpty()) {
                LOG.warn("scalar kernels are in use: {}", choice.remark());
            }
        }
        if (config.blockSize() != Kernels.BLOCK_SIZE) {
            throw new InvalidConfigException(
                    "--block-size",
                    config.blockSize(),
                    "the cpu device lays KV out in blocks of " + Kernels.BLOCK_SIZE + " tokens",
                    "use " + Kernels.BLOCK_SIZE);
        }
        NumberFormat format = chooseFormat(config, OneDnn.hasBfloat16());
        return CpuBackend.open(config, format, sharesReads, observer);
    }

    /**
     * Whether float32 arithmetic on this CPU reads the matrices of a BF16 checkpoint as they are stored, 2 bytes a weight; where not,
     * and of other checkpoints, it reads 4.
     */
    public static boolean keepsBfloat16Weights() {
        return MatmulShape.canWiden();
    }

    static NumberFormat chooseFormat(BackendConfig config, boolean hasBfloat16) {
        if (config.dtype() == Dtype.FLOAT32) {
            return NumberFormat.FLOAT32;
        }
        if (config.dtype() == Dtype.BFLOAT16) {
            if (!hasBfloat16) {
                throw new InvalidConfigException(
                        "--dtype",
                        "bfloat16",
                        "this CPU has neither AVX-512 BF16 nor AMX",
                        "use --dtype float32 (or auto)");
            }
            return NumberFormat.BFLOAT16;
        }
        ModelSpec spec = config.model().spec();
        StorageType stored = config.model().weight(Weight.QUERY, 0).storageType();
        boolean isHalf = stored == StorageType.BF16 || stored == StorageType.F16;
        NumberFormat chosen = isHalf && hasBfloat16 ? NumberFormat.BFLOAT16 : NumberFormat.FLOAT32;
        LOG.info(
                "dtype auto: {} for this {} checkpoint of {} layers on a CPU {} bfloat16 arithmetic",
                chosen.optionName(),
                stored,
                spec.numLayers(),
                hasBfloat16 ? "with" : "without");
        return chosen;
    }
}
