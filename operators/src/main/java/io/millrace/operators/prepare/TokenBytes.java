package io.millrace.operators.prepare;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Token ids as the records between operators carry them: int32, little endian. */
public final class TokenBytes {
    private TokenBytes() {}

    public static ByteBuffer encode(int[] tokenIds, int length) {
        ByteBuffer bytes = ByteBuffer.allocate(length * Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asIntBuffer().put(tokenIds, 0, length);
        return bytes;
    }

    public static ByteBuffer encode(int[] tokenIds) {
        return encode(tokenIds, tokenIds.length);
    }

    public static int[] decode(ByteBuffer bytes) {
        int[] tokenIds = new int[bytes.remaining() / Integer.BYTES];
        bytes.duplicate().order(ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(tokenIds);
        return tokenIds;
    }
}
