package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.dnnl_bf16;
import static org.bytedeco.dnnl.global.dnnl.dnnl_f32;

import io.millrace.backend.Dtype;

/** Format of weights, activations and KV. Sums, the residual stream and softmax are float32 in both. */
enum NumberFormat {
    BFLOAT16(dnnl_bf16, 2, Dtype.BFLOAT16),
    FLOAT32(dnnl_f32, 4, Dtype.FLOAT32);

    private final int dataType;
    private final int bytes;
    private final Dtype dtype;

    NumberFormat(int dataType, int bytes, Dtype dtype) {
        this.dataType = dataType;
        this.bytes = bytes;
        this.dtype = dtype;
    }

    /** oneDNN's number for it. */
    int dataType() {
        return dataType;
    }

    int bytes() {
        return bytes;
    }

    String optionName() {
        return dtype.optionName();
    }
}
