package io.millrace.model;

import java.util.Locale;

/** Number formats of safetensors files. All can be stored; {@link #isReadableAsFloat} says which serve as weights. */
public enum StorageType {
    F32(32),
    F16(16),
    BF16(16),
    F64(64),
    F8_E5M2(8),
    F8_E4M3(8),
    F8_E8M0(8),
    F6_E2M3(6),
    F6_E3M2(6),
    F4(4),
    BOOL(8),
    I8(8),
    U8(8),
    I16(16),
    U16(16),
    I32(32),
    U32(32),
    I64(64),
    U64(64),
    C64(64);

    private final int bits;

    StorageType(int bits) {
        this.bits = bits;
    }

    /** Bits of one element; the narrowest formats pack several elements into a byte. */
    public int bits() {
        return bits;
    }

    /** Whether {@link Tensor#readFloats} and {@link Tensor#readBfloat16} take it: F32, F16 and BF16. */
    public boolean isReadableAsFloat() {
        return this == F32 || this == F16 || this == BF16;
    }

    /** Finds a type by its name in a safetensors header; null when the format does not know it. */
    static StorageType ofHeader(String name) {
        for (StorageType type : values()) {
            if (type.name().equals(name)) {
                return type;
            }
        }
        return null;
    }

    /** Finds a type by config.json's name (float32, float16, bfloat16, with or without "torch."); null when unknown. */
    static StorageType ofConfig(String name) {
        String plain = name.startsWith("torch.") ? name.substring("torch.".length()) : name;
        switch (plain.toLowerCase(Locale.ROOT)) {
            case "float32":
                return F32;
            case "float16":
                return F16;
            case "bfloat16":
                return BF16;
            default:
                return null;
        }
    }
}
