package io.millrace.bench.tier;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.DoubleUnaryOperator;

/**
 * What computing cost on the published machines, from nothing but the two speedups of every cell: their ratio is the time of
 * computing alone over that of loading alone, and the latter is bytes over bandwidth. One law is fitted to all cells of a
 * machine by least squares of logarithms:
 *
 * <pre>seconds(n, share) = a × n × (1 + r × n / 2) × f(share) / share</pre>
 *
 * a seconds a token at position 0, r the growth by position, f what mixing with others costs beside the share itself (f(1) is
 * 1, and 1.00 to 1.09 comes out). The 13B model's cells give r and f of a machine (r of the H100, which has one length only,
 * is the mean of the others'); other models have cells on one machine, which give their a there; their r is scaled by
 * operations, and their a elsewhere as the 13B model's. Immutable.
 */
public final class Calibration {
    private static final ServedModel REFERENCE = ServedModel.MULTI_HEAD_13B;
    private static final Hardware COMMON = Hardware.TWO_A100;
    private static final double MAX_GROWTH = 2e-4;

    /** A machine's law for the reference model. */
    private record Machine(double tokenSeconds, double growth, Map<Double, Double> mixing) {}

    private final Map<Hardware, Machine> machines = new EnumMap<>(Hardware.class);
    private final Map<ServedModel, Double> timesReference = new EnumMap<>(ServedModel.class);

    /** Fits the law to the cells. */
    public Calibration(List<PaperCell> cells) {
        double sumGrowth = 0;
        int numGrowths = 0;
        for (Hardware hardware : Hardware.values()) {
            List<PaperCell> own = select(cells, REFERENCE, hardware);
            if (own.stream().mapToInt(PaperCell::numTokens).distinct().count() > 1) {
                double growth = leastOf(r -> squaredError(own, r), 0, MAX_GROWTH);
                machines.put(hardware, machine(own, growth));
                sumGrowth += growth;
                numGrowths++;
            }
        }
        for (Hardware hardware : Hardware.values()) {
            if (!machines.containsKey(hardware)) {
                machines.put(hardware, machine(select(cells, REFERENCE, hardware), sumGrowth / numGrowths));
            }
        }
        timesReference.put(REFERENCE, 1.0);
        for (ServedModel model : ServedModel.values()) {
            if (model != REFERENCE) {
                timesReference.put(model, timesReference(select(cells, model, COMMON), model));
            }
        }
    }

    /** Of the published figures. */
    public static Calibration ofPaper() {
        return new Calibration(PaperCell.readAll());
    }

    /**
     * Costs of one request's prompt and of what fills the steps beside it: the tokens of others cost what the prompt's own do
     * on average, and what mixing costs on top.
     *
     * @param numTokens of the prompt
     * @param computeShare of every step that is the prompt's, in (0, 1]
     */
    public ComputeCosts costs(ServedModel model, Hardware hardware, int numTokens, double computeShare) {
        Machine machine = machines.get(hardware);
        double token = machine.tokenSeconds() * timesReference.get(model);
        double perPosition = token * growth(model, machine);
        double mean = token + perPosition * (numTokens - 1) / 2;
        double mixing = mixing(machine, computeShare);
        double others = computeShare == 1 ? mean : mean * (mixing - computeShare) / (1 - computeShare);
        return new ComputeCosts(token, perPosition, others);
    }

    private static double growth(ServedModel model, Machine machine) {
        return machine.growth() * model.positionShare() / REFERENCE.positionShare();
    }

    private static double mixing(Machine machine, double computeShare) {
        Double fitted = machine.mixing().get(computeShare);
        return fitted == null ? 1 : fitted;
    }

    private static List<PaperCell> select(List<PaperCell> cells, ServedModel model, Hardware hardware) {
        List<PaperCell> selected = new ArrayList<>();
        for (PaperCell cell : cells) {
            if (cell.model() == model && cell.hardware() == hardware) {
                selected.add(cell);
            }
        }
        if (selected.isEmpty()) {
            throw new IllegalArgumentException(
                    "no published cell is about " + model.label() + " on " + hardware.label() + ": nothing to fit");
        }
        return selected;
    }

    private static Machine machine(List<PaperCell> cells, double growth) {
        Map<Double, Double> perShare = logTokenSeconds(cells, growth);
        Double alone = perShare.get(1.0);
        if (alone == null) {
            throw new IllegalArgumentException("no published cell of "
                    + cells.get(0).hardware().label() + " has all of the compute: mixing cannot be told from it");
        }
        Map<Double, Double> mixing = new TreeMap<>();
        perShare.forEach((share, log) -> mixing.put(share, Math.exp(log - alone)));
        return new Machine(Math.exp(alone), growth, mixing);
    }

    /** By share, the mean logarithm of a × f. */
    private static Map<Double, Double> logTokenSeconds(List<PaperCell> cells, double growth) {
        Map<Double, double[]> sums = new TreeMap<>();
        for (PaperCell cell : cells) {
            double[] sum = sums.computeIfAbsent(cell.computeShare(), share -> new double[2]);
            sum[0] += logTokenSeconds(cell, growth);
            sum[1]++;
        }
        Map<Double, Double> means = new TreeMap<>();
        sums.forEach((share, sum) -> means.put(share, sum[0] / sum[1]));
        return means;
    }

    private static double logTokenSeconds(PaperCell cell, double growth) {
        int n = cell.numTokens();
        return Math.log(cell.computeSeconds() * cell.computeShare() / (n * (1 + growth * n / 2)));
    }

    private static double squaredError(List<PaperCell> cells, double growth) {
        Map<Double, Double> means = logTokenSeconds(cells, growth);
        double sum = 0;
        for (PaperCell cell : cells) {
            double error = logTokenSeconds(cell, growth) - means.get(cell.computeShare());
            sum += error * error;
        }
        return sum;
    }

    /** How many times dearer a token at position 0 is than the reference model's. */
    private double timesReference(List<PaperCell> cells, ServedModel model) {
        Machine machine = machines.get(COMMON);
        double sum = 0;
        for (PaperCell cell : cells) {
            sum += logTokenSeconds(cell, growth(model, machine)) - Math.log(mixing(machine, cell.computeShare()));
        }
        return Math.exp(sum / cells.size()) / machine.tokenSeconds();
    }

    /** The least of a function with one valley, by golden section. */
    private static double leastOf(DoubleUnaryOperator function, double from, double to) {
        double ratio = (Math.sqrt(5) - 1) / 2;
        double low = from;
        double high = to;
        while (high - low > (to - from) * 1e-9) {
            double left = high - ratio * (high - low);
            double right = low + ratio * (high - low);
            if (function.applyAsDouble(left) < function.applyAsDouble(right)) {
                high = right;
            } else {
                low = left;
            }
        }
        return (low + high) / 2;
    }
}
