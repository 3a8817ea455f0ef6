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

    private final float[] halves = new float[4 * L];

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
        Object memory = panel.vectors();
        int c = 0;
        for (; c + 2 * L < numColumns; c += 4 * L) {
            // Of a vector and a half, the second one reads half of the first one's columns again, with the same sums.
            int next = Math.min(c + 2 * L, numColumns - 2 * L);
            int at = firstByte + c * Short.BYTES;
            multiplyTwoDeep(memory, at, (next - c) * Short.BYTES, depthBytes, numDepths, row, rowOffset, halves);
            interleave(halves, 0, sums, sumsOffset + c, 2 * L);
            interleave(halves, 2 * L, sums, sumsOffset + next, 2 * L);
        }
        if (c < numColumns) {
            multiplyOneDeep(memory, firstByte + c * Short.BYTES, depthBytes, numDepths, row, rowOffset, halves);
            interleave(halves, 0, sums, sumsOffset + c, numColumns - c);
        }
    }

    /** Sums of even columns, then of odd ones, of a vector; behind these, those of another one. */
    private static void multiplyTwoDeep(
            Object memory,
            int firstByte,
            int nextBytes,
            int depthBytes,
            int numDepths,
            float[] row,
            int rowOffset,
            float[] halves) {
        FloatVector even0 = FloatVector.zero(F);
        FloatVector odd0 = FloatVector.zero(F);
        FloatVector even1 = FloatVector.zero(F);
        FloatVector odd1 = FloatVector.zero(F);
        int at = firstByte;
        int end = rowOffset + numDepths;
        for (int i = rowOffset; i < end; i++, at += depthBytes) {
            FloatVector factor = FloatVector.broadcast(F, row[i]);
            IntVector pairs0 = VectorPairs.load(memory, at);
            IntVector pairs1 = VectorPairs.load(memory, at + nextBytes);
            even0 = first(pairs0).fma(factor, even0);
            odd0 = second(pairs0).fma(factor, odd0);
            even1 = first(pairs1).fma(factor, even1);
            odd1 = second(pairs1).fma(factor, odd1);
        }
        even0.add(VectorRows.NOTHING).intoArray(halves, 0);
        odd0.add(VectorRows.NOTHING).intoArray(halves, L);
        even1.add(VectorRows.NOTHING).intoArray(halves, 2 * L);
        odd1.add(VectorRows.NOTHING).intoArray(halves, 3 * L);
    }

    private static void multiplyOneDeep(
            Object memory, int firstByte, int depthBytes, int numDepths, float[] row, int rowOffset, float[] halves) {
        FloatVector even = FloatVector.zero(F);
        FloatVector odd = FloatVector.zero(F);
        int at = firstByte;
        int end = rowOffset + numDepths;
        for (int i = rowOffset; i < end; i++, at += depthBytes) {
            FloatVector factor = FloatVector.broadcast(F, row[i]);
            IntVector pairs = VectorPairs.load(memory, at);
            even = first(pairs).fma(factor, even);
            odd = second(pairs).fma(factor, odd);
        }
        even.add(VectorRows.NOTHING).intoArray(halves, 0);
        odd.add(VectorRows.NOTHING).intoArray(halves, L);
    }

    private static void interleave(float[] halves, int offset, float[] sums, int sumsOffset, int count) {
        for (int i = 0; i < count; i += 2) {
            sums[sumsOffset + i] = halves[offset + i / 2];
            sums[sumsOffset + i + 1] = halves[offset + L + i / 2];
        }
    }

    private static FloatVector first(IntVector pairs) {
        return pairs.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats();
    }

    private static FloatVector second(IntVector pairs) {
        return pairs.and(0xffff0000).reinterpretAsFloats();
    }
}
