package io.millrace.kernels;

import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Uses every operator of the kernels, in turns, before the JDK's methods for vectors are compiled by themselves.
 *
 * <p>The JDK finds an operator's implementation, a lambda, in methods that all operators share. Compiled while only some have been
 * used, such a method holds those lambdas' classes for the only ones, and each that comes later is a failed class check, up to four
 * to a place. C2 adds the failures up over all methods that it inlines, as often as it inlines them; from 100 on it casts no vector
 * to the class that it has seen, and boxes it instead. So whether a kernel of 25 or more operations is many times slower depended
 * on which kernels happened to run first. Failures are never forgotten: this must come before anything else that uses vectors. It
 * takes 0.1 to 0.2 seconds, once a JVM.
 */
final class VectorProfiles {
    /** The first compiler takes 200 calls of a method to compile it with counters; the second 5,000 to believe them. */
    private static final int NUM_ROUNDS = 300;

    private VectorProfiles() {}

    /** Returns what it computed, for nothing but that it be computed. */
    static double fill(VectorSpecies<Float> floats, VectorSpecies<Integer> ints, VectorSpecies<Short> shorts) {
        double sum = 0;
        for (int round = 0; round < NUM_ROUNDS; round++) {
            sum += useFloats(floats);
            sum += useInts(ints, shorts);
            sum += useLongsAndDoubles();
        }
        return sum;
    }

    private static float useFloats(VectorSpecies<Float> species) {
        FloatVector one = FloatVector.broadcast(species, 1f);
        FloatVector x = one.add(1f).sub(one).mul(one).min(one).max(one);
        x = x.fma(one, one).abs().neg().div(one);
        x = x.blend(one, x.compare(VectorOperators.LT, one)).sqrt();
        x = x.blend(one, x.compare(VectorOperators.GE, 0f).or(x.compare(VectorOperators.NE, x)));
        x = x.blend(one, x.compare(VectorOperators.EQ, one).or(x.compare(VectorOperators.LE, one)));
        if (x.compare(VectorOperators.NE, one).anyTrue()) {
            x = one;
        }
        float[] stored = new float[species.length()];
        x.intoArray(stored, 0);
        return FloatVector.fromArray(species, stored, 0).reduceLanes(VectorOperators.MAX) + x.lane(0);
    }

    private static float useInts(VectorSpecies<Integer> species, VectorSpecies<Short> shorts) {
        IntVector one = IntVector.broadcast(species, 1);
        IntVector x = one.add(1).sub(one).mul(one).and(one).or(one).lanewise(VectorOperators.XOR, one);
        x = x.min(one).max(one).lanewise(VectorOperators.MIN, 1);
        x = x.lanewise(VectorOperators.LSHL, 1)
                .lanewise(VectorOperators.LSHR, 1)
                .lanewise(VectorOperators.ASHR, 1);
        x = x.blend(one, x.compare(VectorOperators.GE, one)).addIndex(1);
        int isAny = x.compare(VectorOperators.GE, 0).anyTrue() ? 1 : 0;
        int[] stored = new int[species.length()];
        x.intoArray(stored, 0);
        x = IntVector.fromArray(species, stored, 0);
        short[] halves = new short[shorts.length()];
        ((ShortVector) x.castShape(shorts, 0)).intoArray(halves, 0);
        FloatVector converted = (FloatVector) x.convert(VectorOperators.I2F, 0);
        return isAny
                + halves[0]
                + converted.lane(0)
                + x.reinterpretAsFloats().lane(0)
                + x.reduceLanes(VectorOperators.MAX)
                + x.reduceLanes(VectorOperators.MIN);
    }

    private static double useLongsAndDoubles() {
        LongVector one = LongVector.broadcast(LongVector.SPECIES_PREFERRED, 1);
        LongVector x = one.add(1).mul(one).and(one).or(one).lanewise(VectorOperators.XOR, one);
        x = x.lanewise(VectorOperators.LSHL, 1)
                .lanewise(VectorOperators.LSHR, 1)
                .addIndex(1);
        long[] stored = new long[x.length()];
        x.intoArray(stored, 0);
        x = LongVector.fromArray(LongVector.SPECIES_PREFERRED, stored, 0);
        DoubleVector sum = x.reinterpretAsDoubles().add(DoubleVector.zero(DoubleVector.SPECIES_PREFERRED));
        double[] sums = new double[sum.length()];
        sum.intoArray(sums, 0);
        return sums[0] + x.reinterpretAsInts().lane(0);
    }
}
