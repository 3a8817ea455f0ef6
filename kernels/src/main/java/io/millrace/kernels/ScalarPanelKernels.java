package io.millrace.kernels;

import java.nio.ByteBuffer;

/** The scalar twin: the rule that vectorised kernels keep to. */
final class ScalarPanelKernels implements PanelKernels {
    @Override
    public void multiplyPairs(
            PairMemory panel,
            int firstByte,
            int pairBytes,
            int numPairs,
            float[] row,
            int rowOffset,
            float[] sums,
            int sumsOffset,
            int numColumns) {
        ByteBuffer bytes = panel.bytes();
        for (int c = 0; c < numColumns; c++) {
            float sum = 0f;
            for (int p = 0; p < numPairs; p++) {
                int pair = bytes.getInt(firstByte + p * pairBytes + c * Integer.BYTES);
                sum = Math.fma(Float.intBitsToFloat(pair & 0xffff0000), row[rowOffset + 2 * p + 1], sum);
                sum = Math.fma(Float.intBitsToFloat(pair << 16), row[rowOffset + 2 * p], sum);
            }
            sums[sumsOffset + c] = sum;
        }
    }

    @Override
    public void multiplyDepths(
            PairMemory panel,
            int firstByte,
            int depthBytes,
            int numDepths,
            float[] row,
            int rowOffset,
            float[] sums,
            int sumsOffset,
            int numColumns) {
        ByteBuffer bytes = panel.bytes();
        for (int c = 0; c < numColumns; c++) {
            float sum = 0f;
            for (int i = 0; i < numDepths; i++) {
                short element = bytes.getShort(firstByte + i * depthBytes + c * Short.BYTES);
                sum = Math.fma(Bfloat16.widen(element), row[rowOffset + i], sum);
            }
            sums[sumsOffset + c] = sum;
        }
    }
}
