package io.millrace.bench.ceiling;

import com.sun.jna.NativeLibrary;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.dnnl.global.dnnl;

/** The OpenMP runtime that oneDNN brings: how many threads the calling thread's products use. Any thread. */
final class OpenMp {
    private static final List<NativeLibrary> LIBRARIES = find();

    private OpenMp() {}

    static void setNumThreads(int numThreads) {
        for (NativeLibrary library : LIBRARIES) {
            library.getFunction("omp_set_num_threads").invokeVoid(new Object[] {numThreads});
        }
    }

    private static List<NativeLibrary> find() {
        dnnl.dnnl_version(); // loads oneDNN, and its OpenMP with it
        try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
            List<NativeLibrary> libraries = lines.filter(line -> line.matches(".*/lib[gi]?omp5?[-.][^/]*"))
                    .map(line -> line.substring(line.indexOf('/')))
                    .distinct()
                    .map(NativeLibrary::getInstance)
                    .toList();
            if (libraries.isEmpty()) {
                throw new IllegalStateException("no OpenMP library in /proc/self/maps: oneDNN's ceilings cannot be"
                        + " measured thread by thread; run on Linux with the bundled oneDNN");
            }
            return libraries;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
