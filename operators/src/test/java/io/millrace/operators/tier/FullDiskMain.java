package io.millrace.operators.tier;

import io.millrace.prefix.ChunkKey;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;

/** Writes chunks until the store gives up, with files limited to a megabyte; run as a process of its own. */
final class FullDiskMain {
    private FullDiskMain() {}

    public static void main(String[] args) throws Exception {
        Path directory = Path.of(args[0]);
        DiskPrefixStore store =
                DiskPrefixStore.open(DiskStoreOptions.of(directory.toString(), 256L << 20, Duration.ZERO));
        store.open(new Received());
        String limit = "prlimit --pid " + ProcessHandle.current().pid() + " --fsize=1048576:";
        if (new ProcessBuilder(limit.split(" ")).inheritIO().start().waitFor() != 0) {
            throw new IllegalStateException("cannot limit the size of files");
        }
        for (int i = 0; i < 10_000 && store.suspension() == null; i++) {
            store.store(0, List.of(new ChunkKey(1, i)), new byte[][] {new byte[1_000_000]});
            Thread.sleep(1);
        }
        System.out.println(store.suspension());
        store.store(0, List.of(new ChunkKey(2, 0)), new byte[][] {new byte[10]});
        store.close();
        try (Stream<Path> files = Files.list(directory)) {
            System.out.println("files left: " + files.filter(Files::isDirectory).count());
        }
    }
}
