package io.millrace.model;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;

/**
 * A tensor of a safetensors file, row-major, memory-mapped. Immutable; any thread may read. The read methods throw
 * IndexOutOfBoundsException for a range outside of the tensor or the destination, and {@link InvalidModelException} for
 * a storage type they do not take.
 */
public final class Tensor {
    private final String name;
    private final StorageType storageType;
    private final long[] shape;
    private final MappedFile file;
    private final long fileOffset;
    private final long sizeBytes;

    Tensor(String name, StorageType storageType, long[] shape, MappedFile file, long fileOffset, long sizeBytes) {
        this.name = name;
        this.storageType = storageType;
        this.shape = shape;
        this.file = file;
        this.fileOffset = fileOffset;
        this.sizeBytes = sizeBytes;
    }

    /** Its name in the checkpoint. */
    public String name() {
        return name;
    }

    public StorageType storageType() {
        return storageType;
    }

    /** A copy of the shape; a linear layer's matrix is [outputs, inputs]. */
    public long[] shape() {
        return shape.clone();
    }

    /** Elements of all dimensions together; 1 for a scalar. */
    public long numElements() {
        long numElements = 1;
        for (long dimension : shape) {
            numElements *= dimension;
        }
        return numElements;
    }

    /** Bytes in the file. */
    public long sizeBytes() {
        return sizeBytes;
    }

    boolean hasShape(long... expected) {
        return Arrays.equals(shape, expected);
    }

    String describe() {
        return "tensor '" + name + "' (" + storageType + " " + Arrays.toString(shape) + ") of " + file.path();
    }

    /** Reads count elements as float32; exact for every readable storage type. */
    public void readFloats(long firstElement, float[] destination, int destinationOffset, int count) {
        checkRange(firstElement, count, numElements());
        Objects.checkFromIndexSize(destinationOffset, count, destination.length);
        requireFloat();
        int elementBytes = storageType.bits() / Byte.SIZE;
        int done = 0;
        while (done < count) {
            ByteBuffer view = view((firstElement + done) * elementBytes, (long) (count - done) * elementBytes);
            int length = view.capacity() / elementBytes;
            int to = destinationOffset + done;
            if (storageType == StorageType.F32) {
                view.asFloatBuffer().get(0, destination, to, length);
            } else if (storageType == StorageType.BF16) {
                for (int i = 0; i < length; i++) {
                    destination[to + i] = FloatFormats.fromBfloat16(view.getShort(2 * i));
                }
            } else {
                for (int i = 0; i < length; i++) {
                    destination[to + i] = FloatFormats.fromFloat16(view.getShort(2 * i));
                }
            }
            done += length;
        }
    }

    /** Reads count elements as bfloat16 bits: an exact copy of BF16, else rounded to nearest, ties to even. */
    public void readBfloat16(long firstElement, short[] destination, int destinationOffset, int count) {
        checkRange(firstElement, count, numElements());
        Objects.checkFromIndexSize(destinationOffset, count, destination.length);
        requireFloat();
        int elementBytes = storageType.bits() / Byte.SIZE;
        int done = 0;
        while (done < count) {
            ByteBuffer view = view((firstElement + done) * elementBytes, (long) (count - done) * elementBytes);
            int length = view.capacity() / elementBytes;
            int to = destinationOffset + done;
            if (storageType == StorageType.BF16) {
                view.asShortBuffer().get(0, destination, to, length);
            } else if (storageType == StorageType.F32) {
                for (int i = 0; i < length; i++) {
                    destination[to + i] = FloatFormats.toBfloat16(view.getFloat(4 * i));
                }
            } else {
                for (int i = 0; i < length; i++) {
                    destination[to + i] = FloatFormats.toBfloat16(FloatFormats.fromFloat16(view.getShort(2 * i)));
                }
            }
            done += length;
        }
    }

    /** Reads raw little-endian bytes; takes every storage type. */
    public void readBytes(long firstByte, byte[] destination, int destinationOffset, int count) {
        checkRange(firstByte, count, sizeBytes);
        Objects.checkFromIndexSize(destinationOffset, count, destination.length);
        int done = 0;
        while (done < count) {
            ByteBuffer view = view(firstByte + done, count - done);
            view.get(0, destination, destinationOffset + done, view.capacity());
            done += view.capacity();
        }
    }

    private ByteBuffer view(long tensorOffset, long maxBytes) {
        return file.view(fileOffset + tensorOffset, maxBytes);
    }

    private void requireFloat() {
        if (!storageType.isReadableAsFloat()) {
            throw new InvalidModelException(describe()
                    + " is not F32, F16 or BF16: convert the checkpoint to one of these (quantised weights are not"
                    + " supported)");
        }
    }

    private void checkRange(long first, long count, long limit) {
        if (first < 0 || count < 0 || first > limit - count) {
            throw new IndexOutOfBoundsException(
                    "range [" + first + ", " + first + " + " + count + ") is outside of " + describe());
        }
    }
}
