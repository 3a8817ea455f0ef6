package io.millrace.kernels;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Loads vectors from memory outside of the heap: from byte buffers on JDK 17, from memory segments on those (19 and later) whose
 * Vector API knows no buffers any more. Which one is found once; compiled code does not see the difference.
 */
final class VectorPairs {
    private static final MethodHandle VIEW;
    private static final MethodHandle LOAD;

    static {
        MethodHandles.Lookup lookup = MethodHandles.lookup();
        try {
            MethodHandle view;
            MethodHandle load;
            try {
                load = loader(lookup, "fromByteBuffer", ByteBuffer.class, int.class);
                view = MethodHandles.identity(ByteBuffer.class);
            } catch (NoSuchMethodException laterJdk) {
                Class<?> segment = Class.forName("java.lang.foreign.MemorySegment");
                load = loader(lookup, "fromMemorySegment", segment, long.class);
                view = lookup.findStatic(segment, "ofBuffer", MethodType.methodType(segment, Buffer.class));
            }
            VIEW = view.asType(MethodType.methodType(Object.class, ByteBuffer.class));
            // First to int offsets, then to any object: a cast and a widening that compiled code folds away.
            MethodHandle ofInt = load.asType(load.type().changeParameterType(1, int.class));
            LOAD = ofInt.asType(MethodType.methodType(IntVector.class, Object.class, int.class));
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private VectorPairs() {}

    private static MethodHandle loader(MethodHandles.Lookup lookup, String name, Class<?> memory, Class<?> offset)
            throws ReflectiveOperationException {
        MethodType type = MethodType.methodType(IntVector.class, VectorSpecies.class, memory, offset, ByteOrder.class);
        MethodHandle load = lookup.findStatic(IntVector.class, name, type);
        load = MethodHandles.insertArguments(load, 3, ByteOrder.nativeOrder());
        return MethodHandles.insertArguments(load, 0, VectorRows.I);
    }

    /** What {@link #load} takes for a direct buffer. */
    static Object viewOf(ByteBuffer buffer) {
        try {
            return (Object) VIEW.invokeExact(buffer);
        } catch (Throwable e) {
            throw unchecked(e);
        }
    }

    /** A vector as wide as those of {@link VectorRows}, from an offset in bytes. */
    static IntVector load(Object view, int offset) {
        try {
            return (IntVector) LOAD.invokeExact(view, offset);
        } catch (Throwable e) {
            throw unchecked(e);
        }
    }

    /** Neither method declares an exception. */
    private static RuntimeException unchecked(Throwable e) {
        if (e instanceof Error error) {
            throw error;
        }
        throw (RuntimeException) e;
    }
}
