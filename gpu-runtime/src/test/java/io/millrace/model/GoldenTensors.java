package io.millrace.model;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;

/** Reads golden tensors of any type whole, for tests. */
public final class GoldenTensors {
    private final Safetensors tensors;

    public GoldenTensors(Path file) {
        tensors = Safetensors.openFile(file);
    }

    public boolean contains(String name) {
        return tensors.contains(name);
    }

    public long[] shape(String name) {
        return tensors.tensor(name).shape();
    }

    /** An F32 tensor. */
    public float[] floats(String name) {
        float[] values = new float[(int) tensors.tensor(name).numElements()];
        bytes(name, StorageType.F32).asFloatBuffer().get(values);
        return values;
    }

    /** An F64 tensor. */
    public double[] doubles(String name) {
        double[] values = new double[(int) tensors.tensor(name).numElements()];
        bytes(name, StorageType.F64).asDoubleBuffer().get(values);
        return values;
    }

    /** An I32 tensor. */
    public int[] ints(String name) {
        int[] values = new int[(int) tensors.tensor(name).numElements()];
        bytes(name, StorageType.I32).asIntBuffer().get(values);
        return values;
    }

    private ByteBuffer bytes(String name, StorageType expected) {
        Tensor tensor = tensors.tensor(name);
        if (tensor.storageType() != expected) {
            throw new IllegalArgumentException(tensor.describe() + " is not " + expected);
        }
        byte[] bytes = new byte[(int) tensor.sizeBytes()];
        tensor.readBytes(0, bytes, 0, bytes.length);
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }
}
