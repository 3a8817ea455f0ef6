package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.bytedeco.dnnl.global.dnnl;
import org.junit.jupiter.api.Test;

class OneDnnTest {
    @Test
    void namesTheInstructionSetThatProductsDiffer() {
        assertEquals("amx", OneDnn.instructionSet(dnnl.dnnl_cpu_isa_avx512_core_amx_fp16));
        assertEquals("avx512_bf16", OneDnn.instructionSet(dnnl.dnnl_cpu_isa_avx512_core_fp16));
        assertEquals("avx512_bf16", OneDnn.instructionSet(dnnl.dnnl_cpu_isa_avx512_core_bf16));
        assertEquals("avx512", OneDnn.instructionSet(dnnl.dnnl_cpu_isa_avx512_core_vnni));
        assertEquals("avx512", OneDnn.instructionSet(dnnl.dnnl_cpu_isa_avx512_core));
        assertEquals("avx2", OneDnn.instructionSet(dnnl.dnnl_cpu_isa_avx2_vnni_2));
        assertEquals("isa1", OneDnn.instructionSet(dnnl.dnnl_cpu_isa_sse41));
    }
}
