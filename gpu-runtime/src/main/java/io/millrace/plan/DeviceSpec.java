package io.millrace.plan;

import java.util.List;
import java.util.Objects;
import java.util.Optional;

/**
 * A device, or several as one.
 *
 * @param name as given to --device
 * @param source where the figures are from, for the reader of the plan
 * @param memoryBytes memory for weights and KV together
 * @param rates how fast it is
 * @param linkBytesPerSecond between its memory and the host's, each way
 */
public record DeviceSpec(String name, String source, long memoryBytes, DeviceRates rates, double linkBytesPerSecond) {

    /** Data sheets: dense bf16 tensor-core rates without sparsity, 10^9 bytes a GB; of the link, what copies reach. */
    private static final List<DeviceSpec> ALL = List.of(
            new DeviceSpec(
                    "h100",
                    "data sheet, H100 SXM5 80 GB: dense bf16, HBM3; PCIe 5.0 x16 as copies reach it",
                    80_000_000_000L,
                    DeviceRates.of(3.35e12, 989e12),
                    50e9),
            new DeviceSpec(
                    "h200",
                    "data sheet, H200 SXM 141 GB: dense bf16, HBM3e; PCIe 5.0 x16 as copies reach it",
                    141_000_000_000L,
                    DeviceRates.of(4.8e12, 989e12),
                    50e9),
            new DeviceSpec(
                    "a100",
                    "data sheet, A100 SXM4 80 GB: dense bf16, HBM2e; PCIe 4.0 x16 as copies reach it",
                    80_000_000_000L,
                    DeviceRates.of(2.039e12, 312e12),
                    25e9));

    public DeviceSpec {
        Objects.requireNonNull(name);
        Objects.requireNonNull(source);
        Objects.requireNonNull(rates);
        InvalidPlanException.requireAtLeast("--device-memory", memoryBytes, 1, "try 80g");
        InvalidPlanException.requirePositive("--link-bandwidth", linkBytesPerSecond, "try 50g (bytes/s)");
    }

    public static List<String> names() {
        return ALL.stream().map(DeviceSpec::name).toList();
    }

    /** The device of that name; empty where there is none. */
    public static Optional<DeviceSpec> find(String name) {
        return ALL.stream().filter(device -> device.name().equals(name)).findFirst();
    }

    /** Several of it with tensors split evenly (tensor parallelism) and free communication. */
    public DeviceSpec times(int numDevices) {
        InvalidPlanException.requireAtLeast("--tensor-parallel-size", numDevices, 1, "use 1 for one device");
        return numDevices == 1
                ? this
                : new DeviceSpec(
                        numDevices + " x " + name,
                        source + "; " + numDevices + " devices share every tensor, their communication is not counted",
                        memoryBytes * numDevices,
                        rates.times(numDevices),
                        linkBytesPerSecond * numDevices);
    }
}
