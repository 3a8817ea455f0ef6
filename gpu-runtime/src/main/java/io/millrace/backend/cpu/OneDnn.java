package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.dnnl_cpu;
import static org.bytedeco.dnnl.global.dnnl.dnnl_cpu_isa_avx2;
import static org.bytedeco.dnnl.global.dnnl.dnnl_cpu_isa_avx512_core;
import static org.bytedeco.dnnl.global.dnnl.dnnl_cpu_isa_avx512_core_amx;
import static org.bytedeco.dnnl.global.dnnl.dnnl_cpu_isa_avx512_core_bf16;
import static org.bytedeco.dnnl.global.dnnl.dnnl_engine_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_get_effective_cpu_isa;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_create_with_strides;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_create_with_tag;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_attr_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_attr_set_scratchpad_mode;
import static org.bytedeco.dnnl.global.dnnl.dnnl_scratchpad_mode_user;
import static org.bytedeco.dnnl.global.dnnl.dnnl_success;
import static org.bytedeco.dnnl.global.dnnl.dnnl_version;

import com.sun.jna.NativeLibrary;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.bytedeco.dnnl.dnnl_engine;
import org.bytedeco.dnnl.dnnl_memory_desc;
import org.bytedeco.dnnl.dnnl_primitive_attr;
import org.bytedeco.dnnl.dnnl_version_t;

/**
 * The oneDNN library of this process: loaded once, with one CPU engine. oneDNN splits a product over OpenMP threads, and
 * how it splits may show in the bits; so every thread that calls it sets its own OpenMP team size to 1 and our threads
 * share out fixed panels instead. The binding does not offer that call, hence it goes to the OpenMP library directly.
 */
final class OneDnn {
    static {
        // JavaCPP counts mapped files as its own memory and would refuse to allocate; limits are checked elsewhere.
        System.setProperty("org.bytedeco.javacpp.maxBytes", "0");
        System.setProperty("org.bytedeco.javacpp.maxPhysicalBytes", "0");
    }

    private static final dnnl_engine ENGINE = createEngine();
    private static final List<NativeLibrary> OPEN_MP = findOpenMp();

    private OneDnn() {}

    static dnnl_engine engine() {
        return ENGINE;
    }

    private static dnnl_engine createEngine() {
        dnnl_engine engine = new dnnl_engine();
        check(dnnl_engine_create(engine, dnnl_cpu, 0), "create the CPU engine");
        return engine;
    }

    /** What all primitives have in common: the caller brings the scratchpad, so a primitive may run on several threads. */
    static dnnl_primitive_attr newAttributes() {
        dnnl_primitive_attr attributes = new dnnl_primitive_attr();
        check(dnnl_primitive_attr_create(attributes), "create attributes");
        check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user), "set scratchpad mode");
        return attributes;
    }

    /** The OpenMP libraries that are mapped into the process; oneDNN was loaded before, so its own is among them. */
    private static List<NativeLibrary> findOpenMp() {
        TreeSet<String> paths = new TreeSet<>();
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/maps"))) {
                int slash = line.indexOf('/');
                if (slash >= 0 && line.substring(line.lastIndexOf('/')).matches("/lib[gi]?omp5?[-.].*")) {
                    paths.add(line.substring(slash));
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        if (paths.isEmpty()) {
            throw new IllegalStateException("no OpenMP library found in /proc/self/maps beside oneDNN: the CPU backend"
                    + " cannot make its matrix products reproducible; run on Linux with the bundled oneDNN");
        }
        List<NativeLibrary> libraries = new ArrayList<>();
        for (String path : paths) {
            libraries.add(NativeLibrary.getInstance(path));
        }
        return libraries;
    }

    /** Makes oneDNN calls of the current thread run on this thread alone. */
    static void useOneThreadPerCall() {
        for (NativeLibrary library : OPEN_MP) {
            library.getFunction("omp_set_num_threads").invokeVoid(new Object[] {1});
            int max = library.getFunction("omp_get_max_threads").invokeInt(new Object[0]);
            if (max != 1) {
                throw new IllegalStateException("OpenMP library " + library.getFile() + " keeps " + max
                        + " threads a call after omp_set_num_threads(1): the CPU backend cannot make its matrix products"
                        + " reproducible");
            }
        }
    }

    static boolean hasAvx512() {
        return includes(dnnl_get_effective_cpu_isa(), dnnl_cpu_isa_avx512_core);
    }

    static boolean hasBfloat16() {
        return includes(dnnl_get_effective_cpu_isa(), dnnl_cpu_isa_avx512_core_bf16);
    }

    /** The widest instruction set that oneDNN uses here. */
    static String instructionSet() {
        return instructionSet(dnnl_get_effective_cpu_isa());
    }

    /** Of the library's instruction sets those that its products differ by; integer dot products (VNNI) are of no use here. */
    static String instructionSet(int isa) {
        if (includes(isa, dnnl_cpu_isa_avx512_core_amx)) {
            return "amx";
        }
        if (includes(isa, dnnl_cpu_isa_avx512_core_bf16)) {
            return "avx512_bf16";
        }
        if (includes(isa, dnnl_cpu_isa_avx512_core)) {
            return "avx512";
        }
        return includes(isa, dnnl_cpu_isa_avx2) ? "avx2" : "isa" + isa;
    }

    /** A set's number has a bit for each extension that belongs to it. */
    private static boolean includes(int isa, int part) {
        return (isa & part) == part;
    }

    static String version() {
        dnnl_version_t version = dnnl_version();
        return version.major() + "." + version.minor() + "." + version.patch();
    }

    static dnnl_memory_desc matrix(long rows, long columns, int dataType, long rowStride, long columnStride) {
        dnnl_memory_desc result = new dnnl_memory_desc();
        long[] dimensions = {rows, columns};
        long[] strides = {rowStride, columnStride};
        check(dnnl_memory_desc_create_with_strides(result, 2, dimensions, dataType, strides), "describe a matrix");
        return result;
    }

    static dnnl_memory_desc matrixOfLayout(long rows, long columns, int dataType, int layoutTag) {
        dnnl_memory_desc result = new dnnl_memory_desc();
        long[] dimensions = {rows, columns};
        check(dnnl_memory_desc_create_with_tag(result, 2, dimensions, dataType, layoutTag), "describe a matrix");
        return result;
    }

    static void check(int status, String what) {
        if (status != dnnl_success) {
            throw new IllegalStateException("oneDNN could not " + what + ": status " + status);
        }
    }
}
