package io.millrace.operators.inference;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** Seeds of requests that bring none. */
final class RequestSeeds {
    private RequestSeeds() {}

    /**
     * A stable hash of the job's seed, the request id, the policy version and the epoch, so that epochs that reuse ids do
     * not repeat their noise: the first eight bytes of SHA-256.
     */
    static long seed(long jobSeed, String requestId, long policyVersion, Long epoch) {
        try {
            MessageDigest sha = MessageDigest.getInstance("SHA-256");
            sha.update(ByteBuffer.allocate(2 * Long.BYTES)
                    .putLong(jobSeed)
                    .putLong(policyVersion)
                    .array());
            sha.update(
                    epoch == null
                            ? new byte[] {0}
                            : ByteBuffer.allocate(1 + Long.BYTES)
                                    .put((byte) 1)
                                    .putLong(epoch)
                                    .array());
            sha.update(requestId.getBytes(StandardCharsets.UTF_8));
            return ByteBuffer.wrap(sha.digest()).getLong();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }
}
