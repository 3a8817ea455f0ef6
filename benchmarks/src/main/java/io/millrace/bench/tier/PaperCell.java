package io.millrace.bench.tier;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * A cell of Tables 3 to 6 of Jin et al., "Compute or Load KV Cache? Why Not Both?" (arXiv 2410.03065v2): how many times faster
 * the first token came than by one resource alone.
 *
 * @param table number of the table
 * @param model whose KV
 * @param hardware what computes
 * @param gbps of the link to the store, gigabits a second
 * @param computePercent of each step's tokens that are this request's
 * @param numTokens of the prompt, all stored
 * @param bits of a stored number
 * @param overIo speedup over loading alone
 * @param overCompute speedup over computing alone
 */
public record PaperCell(
        int table,
        ServedModel model,
        Hardware hardware,
        double gbps,
        double computePercent,
        int numTokens,
        int bits,
        double overIo,
        double overCompute) {
    private static final String RESOURCE = "cake-tables.csv";
    private static final int NUM_COLUMNS = 9;

    /** All cells, table by table. */
    public static List<PaperCell> readAll() {
        try (InputStream in = PaperCell.class.getResourceAsStream(RESOURCE)) {
            if (in == null) {
                throw new IOException("resource " + RESOURCE + " is missing from the benchmarks jar; build it again");
            }
            return read(new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static List<PaperCell> read(BufferedReader lines) throws IOException {
        List<PaperCell> cells = new ArrayList<>();
        boolean isHeader = true;
        for (String line; (line = lines.readLine()) != null; ) {
            if (line.startsWith("#")) {
                continue;
            }
            if (!isHeader) {
                cells.add(parse(line.split(",")));
            }
            isHeader = false;
        }
        return List.copyOf(cells);
    }

    private static PaperCell parse(String[] columns) throws IOException {
        if (columns.length != NUM_COLUMNS) {
            throw new IOException("a line of " + RESOURCE + " has " + columns.length + " columns, not " + NUM_COLUMNS);
        }
        return new PaperCell(
                Integer.parseInt(columns[0]),
                ServedModel.named(columns[1]),
                Hardware.named(columns[2]),
                Double.parseDouble(columns[3]),
                Double.parseDouble(columns[4]),
                Integer.parseInt(columns[5]),
                Integer.parseInt(columns[6]),
                Double.parseDouble(columns[7]),
                Double.parseDouble(columns[8]));
    }

    double computeShare() {
        return computePercent / 100;
    }

    /** Seconds that loading alone takes, by the size of the KV. */
    double ioSeconds() {
        return model.storedBytes(numTokens, bits) * 8 / (gbps * 1e9);
    }

    /** Seconds that computing alone took, by the two speedups. */
    double computeSeconds() {
        return ioSeconds() * overCompute / overIo;
    }
}
