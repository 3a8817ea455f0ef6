package io.millrace.backend.cpu;

import io.millrace.backend.KvCacheDtype;
import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import io.millrace.backend.KvTransfer;
import io.millrace.model.ModelDirectory;
import io.millrace.prefix.ChunkCodec;
import io.millrace.prefix.ChunkKey;
import java.nio.file.Path;
import java.util.Arrays;

/** Gigabytes per second of KV out of and into the pool, and of the pieces' checks: {@code java … KvTransferBench MODEL}. */
final class KvTransferBench {
    private static final int CHUNK_BLOCKS = 8;
    private static final int NUM_CHUNKS = 24;
    private static final ChunkKey KEY = new ChunkKey(1, 2);

    private KvTransferBench() {}

    public static void main(String[] args) {
        ModelDirectory model = ModelDirectory.open(Path.of(args[0]));
        for (NumberFormat number : NumberFormat.values()) {
            KvPool pool = new KvPool(model.spec(), number, KvCacheDtype.AUTO, 512L << 20);
            KvTransfer kv = new CpuKvTransfer(pool, () -> {});
            for (KvFormat format : KvFormat.values()) {
                measure(number, kv, format);
            }
        }
    }

    private static void measure(NumberFormat number, KvTransfer kv, KvFormat format) {
        KvLayout layout = kv.layout();
        ChunkCodec codec = new ChunkCodec(kv, format, CHUNK_BLOCKS * layout.blockSize(), "bench");
        int[] tokens = new int[CHUNK_BLOCKS * layout.blockSize()];
        byte[][][] chunks = new byte[NUM_CHUNKS][][];
        double bytes = (double) NUM_CHUNKS * codec.chunkBytes();
        double computedBytes = (double) NUM_CHUNKS * layout.bytes(CHUNK_BLOCKS, KvFormat.AS_COMPUTED);
        double[][] nanos = new double[4][9];
        for (int round = -5; round < 9; round++) {
            int slot = Math.max(round, 0);
            long start = System.nanoTime();
            for (int chunk = 0; chunk < NUM_CHUNKS; chunk++) {
                chunks[chunk] = codec.encode(KEY, tokens, 0, blocks(chunk));
            }
            long encoded = System.nanoTime();
            for (byte[][] chunk : chunks) {
                Arrays.stream(chunk).forEach(ChunkCodec::seal);
            }
            long sealed = System.nanoTime();
            for (int chunk = 0; chunk < NUM_CHUNKS; chunk++) {
                codec.decode(chunks[chunk], blocks(chunk));
            }
            long decoded = System.nanoTime();
            for (int chunk = 0; chunk < NUM_CHUNKS; chunk++) {
                kv.requantize(blocks(chunk), CHUNK_BLOCKS, format);
            }
            nanos[0][slot] = encoded - start;
            nanos[1][slot] = sealed - encoded;
            nanos[2][slot] = decoded - sealed;
            nanos[3][slot] = System.nanoTime() - decoded;
        }
        Arrays.stream(nanos).forEach(Arrays::sort);
        System.out.printf(
                "%s %s, chunk of %d bytes: GB/s of pieces: encode %.2f, seal %.2f, decode %.2f; of KV as computed:"
                        + " encode %.2f, decode %.2f, requantize %.2f%n",
                number.optionName(),
                format.optionName(),
                codec.chunkBytes(),
                bytes / nanos[0][4],
                bytes / nanos[1][4],
                bytes / nanos[2][4],
                computedBytes / nanos[0][4],
                computedBytes / nanos[2][4],
                computedBytes / nanos[3][4]);
    }

    private static int[] blocks(int chunk) {
        int[] blocks = new int[CHUNK_BLOCKS];
        for (int i = 0; i < CHUNK_BLOCKS; i++) {
            blocks[i] = (chunk * CHUNK_BLOCKS + i) * 97 % 400;
        }
        return blocks;
    }
}
