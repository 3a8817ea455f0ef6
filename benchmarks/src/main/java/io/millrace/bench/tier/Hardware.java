package io.millrace.bench.tier;

/** What the published figures were measured on. */
public enum Hardware {
    TWO_A100("2xA100"),
    A100("A100"),
    H100("H100");

    private final String label;

    Hardware(String label) {
        this.label = label;
    }

    /** How reports call it. */
    public String label() {
        return label;
    }

    static Hardware named(String label) {
        for (Hardware hardware : values()) {
            if (hardware.label.equals(label)) {
                return hardware;
            }
        }
        throw new IllegalArgumentException("no hardware is called '" + label + "'");
    }
}
