package io.millrace.backend.cpu;

import io.millrace.model.RopeSpec;

/**
 * Cosines and sines by position, [maxModelLen][rotaryDim / 2]. Angles are float32 products, as in the reference; the
 * trigonometry is StrictMath's, the same bits on every JVM.
 */
final class RopeTable {
    private final int half;
    private final float[] cos;
    private final float[] sin;

    RopeTable(RopeSpec rope, int maxModelLen) {
        half = rope.rotaryDim() / 2;
        cos = new float[Math.multiplyExact(maxModelLen, half)];
        sin = new float[cos.length];
        for (int position = 0; position < maxModelLen; position++) {
            for (int d = 0; d < half; d++) {
                float angle = position * rope.inverseFrequencies()[d];
                cos[position * half + d] = (float) StrictMath.cos(angle);
                sin[position * half + d] = (float) StrictMath.sin(angle);
            }
        }
    }

    int half() {
        return half;
    }

    float[] cos() {
        return cos;
    }

    float[] sin() {
        return sin;
    }
}
