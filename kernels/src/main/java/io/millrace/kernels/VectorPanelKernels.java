package io.millrace.kernels;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** Four vectors of columns at a time, or three: as many sums as it takes for the adders hardly ever to wait for one. */
final class VectorPanelKernels implements PanelKernels {
    private static final VectorSpecies<Float> F = VectorRows.F;
    private static final int L = VectorRows.L;
    private static final int VECTOR_BYTES = L * Integer.BYTES;

    @Override
    public void multiply(
            PairMemory panel,
            int firstByte,
            int pairBytes,
            int numPairs,
            float[] row,
            int rowOffset,
            float[] sums,
            int sumsOffset,
            int numColumns) {
        Object memory = panel.vectors();
        int c = 0;
        for (; c + 4 * L <= numColumns; c += 4 * L) {
            int at = firstByte + c * Integer.BYTES;
            multiplyFour(memory, at, pairBytes, numPairs, row, rowOffset, sums, sumsOffset + c);
        }
        for (; c + 3 * L <= numColumns; c += 3 * L) {
            int at = firstByte + c * Integer.BYTES;
            multiplyThree(memory, at, pairBytes, numPairs, row, rowOffset, sums, sumsOffset + c);
        }
        for (; c < numColumns; c += L) {
            int at = firstByte + c * Integer.BYTES;
            multiplyOne(memory, at, pairBytes, numPairs, row, rowOffset, sums, sumsOffset + c);
        }
    }

    private static void multiplyFour(
            Object memory,
            int firstByte,
            int pairBytes,
            int numPairs,
            float[] row,
            int rowOffset,
            float[] sums,
            int sumsOffset) {
        FloatVector sum0 = FloatVector.zero(F);
        FloatVector sum1 = FloatVector.zero(F);
        FloatVector sum2 = FloatVector.zero(F);
        FloatVector sum3 = FloatVector.zero(F);
        int at = firstByte;
        int end = rowOffset + 2 * numPairs;
        for (int i = rowOffset; i < end; i += 2, at += pairBytes) {
            FloatVector first = FloatVector.broadcast(F, row[i]);
            FloatVector second = FloatVector.broadcast(F, row[i + 1]);
            IntVector pairs0 = VectorPairs.load(memory, at);
            IntVector pairs1 = VectorPairs.load(memory, at + VECTOR_BYTES);
            IntVector pairs2 = VectorPairs.load(memory, at + 2 * VECTOR_BYTES);
            IntVector pairs3 = VectorPairs.load(memory, at + 3 * VECTOR_BYTES);
            sum0 = second(pairs0).fma(second, sum0);
            sum1 = second(pairs1).fma(second, sum1);
            sum2 = second(pairs2).fma(second, sum2);
            sum3 = second(pairs3).fma(second, sum3);
            sum0 = first(pairs0).fma(first, sum0);
            sum1 = first(pairs1).fma(first, sum1);
            sum2 = first(pairs2).fma(first, sum2);
            sum3 = first(pairs3).fma(first, sum3);
        }
        sum0.add(VectorRows.NOTHING).intoArray(sums, sumsOffset);
        sum1.add(VectorRows.NOTHING).intoArray(sums, sumsOffset + L);
        sum2.add(VectorRows.NOTHING).intoArray(sums, sumsOffset + 2 * L);
        sum3.add(VectorRows.NOTHING).intoArray(sums, sumsOffset + 3 * L);
    }

    private static void multiplyThree(
            Object memory,
            int firstByte,
            int pairBytes,
            int numPairs,
            float[] row,
            int rowOffset,
            float[] sums,
            int sumsOffset) {
        FloatVector sum0 = FloatVector.zero(F);
        FloatVector sum1 = FloatVector.zero(F);
        FloatVector sum2 = FloatVector.zero(F);
        int at = firstByte;
        int end = rowOffset + 2 * numPairs;
        for (int i = rowOffset; i < end; i += 2, at += pairBytes) {
            FloatVector first = FloatVector.broadcast(F, row[i]);
            FloatVector second = FloatVector.broadcast(F, row[i + 1]);
            IntVector pairs0 = VectorPairs.load(memory, at);
            IntVector pairs1 = VectorPairs.load(memory, at + VECTOR_BYTES);
            IntVector pairs2 = VectorPairs.load(memory, at + 2 * VECTOR_BYTES);
            sum0 = second(pairs0).fma(second, sum0);
            sum1 = second(pairs1).fma(second, sum1);
            sum2 = second(pairs2).fma(second, sum2);
            sum0 = first(pairs0).fma(first, sum0);
            sum1 = first(pairs1).fma(first, sum1);
            sum2 = first(pairs2).fma(first, sum2);
        }
        sum0.add(VectorRows.NOTHING).intoArray(sums, sumsOffset);
        sum1.add(VectorRows.NOTHING).intoArray(sums, sumsOffset + L);
        sum2.add(VectorRows.NOTHING).intoArray(sums, sumsOffset + 2 * L);
    }

    private static void multiplyOne(
            Object memory,
            int firstByte,
            int pairBytes,
            int numPairs,
            float[] row,
            int rowOffset,
            float[] sums,
            int sumsOffset) {
        FloatVector sum = FloatVector.zero(F);
        int at = firstByte;
        int end = rowOffset + 2 * numPairs;
        for (int i = rowOffset; i < end; i += 2, at += pairBytes) {
            IntVector pairs = VectorPairs.load(memory, at);
            sum = second(pairs).fma(FloatVector.broadcast(F, row[i + 1]), sum);
            sum = first(pairs).fma(FloatVector.broadcast(F, row[i]), sum);
        }
        sum.add(VectorRows.NOTHING).intoArray(sums, sumsOffset);
    }

    private static FloatVector first(IntVector pairs) {
        return pairs.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats();
    }

    private static FloatVector second(IntVector pairs) {
        return pairs.and(0xffff0000).reinterpretAsFloats();
    }
}
