package io.millrace.bench.ceiling;

import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.NativeLong;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.stream.Stream;

/** Takes files out of the operating system's page cache, so that the next read is the disk's. Linux only. */
public final class PageCache {
    private static final int READ_ONLY = 0;
    private static final int DONT_NEED = 4;

    /** What of the C library is called. */
    interface C extends Library {
        int open(String path, int flags);

        int posix_fadvise(int descriptor, NativeLong offset, NativeLong length, int advice);

        int close(int descriptor);
    }

    private PageCache() {}

    /**
     * Drops every file below a directory, or a file itself, after it was written to the disk.
     *
     * @return whether the system took all of it; false where it has no such call
     * @throws IOException if the directory cannot be read
     */
    public static boolean drop(Path path) throws IOException {
        List<Path> files;
        try (Stream<Path> walk = Files.walk(path)) {
            files = walk.filter(Files::isRegularFile).toList();
        }
        try {
            C library = Native.load("c", C.class);
            for (Path file : files) {
                if (!drop(library, file)) {
                    return false;
                }
            }
            return true;
        } catch (UnsatisfiedLinkError e) {
            return false;
        }
    }

    private static boolean drop(C library, Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            channel.force(true); // pages that are not written yet would stay
        } catch (java.nio.file.NoSuchFileException | java.nio.file.AccessDeniedException e) {
            return true; // gone meanwhile, or read-only and clean
        }
        int descriptor = library.open(file.toString(), READ_ONLY);
        if (descriptor < 0) {
            return true;
        }
        int result = library.posix_fadvise(descriptor, new NativeLong(0), new NativeLong(0), DONT_NEED);
        library.close(descriptor);
        return result == 0;
    }
}
