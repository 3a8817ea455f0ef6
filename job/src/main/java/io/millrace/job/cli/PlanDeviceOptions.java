package io.millrace.job.cli;

import io.millrace.backend.cpu.CpuDeviceProbe;
import io.millrace.plan.DeviceRates;
import io.millrace.plan.DeviceSpec;
import io.millrace.plan.InvalidPlanException;
import io.millrace.plan.Precision;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import picocli.CommandLine.Option;

/** Which device a plan is for: one by its data sheet, this machine by measurement, either with figures replaced. */
final class PlanDeviceOptions {
    private static final String THIS_DEVICE = "this";

    /**
     * What the options come to.
     *
     * @param device or devices
     * @param precision of weights and KV on it
     * @param measured whether it is this machine
     */
    record Target(DeviceSpec device, Precision precision, boolean measured) {}

    @Option(
            names = "--device",
            paramLabel = "NAME",
            defaultValue = THIS_DEVICE,
            description = "h100, h200, a100 by their data sheets, or this: the CPU here, measured for some seconds."
                    + " Default: ${DEFAULT-VALUE}.")
    String device;

    @Option(
            names = "--tensor-parallel-size",
            paramLabel = "N",
            defaultValue = "1",
            description = "Devices that share every tensor; what they tell each other is not counted. Default: 1.")
    int numDevices;

    @Option(
            names = "--device-memory",
            paramLabel = "SIZE",
            converter = ByteSizeConverter.class,
            description = "Memory of a device, instead of --device's.")
    Long deviceMemoryBytes;

    @Option(
            names = "--memory-bandwidth",
            paramLabel = "RATE",
            converter = RateConverter.class,
            description = "Bytes a second, for example 3.35t, instead of --device's.")
    Double memoryBandwidth;

    @Option(
            names = "--peak-flops",
            paramLabel = "RATE",
            converter = RateConverter.class,
            description = "FLOP a second of GEMMs and attention, for example 989t, instead of --device's.")
    Double peakFlops;

    @Option(
            names = "--link-bandwidth",
            paramLabel = "RATE",
            converter = RateConverter.class,
            description = "Bytes a second to the host's memory, each way, for example 50g, instead of --device's.")
    Double linkBandwidth;

    @Option(
            names = "--bytes-per-parameter",
            paramLabel = "N",
            description =
                    "Of the weights in memory: 2 for bfloat16 (default), 4 for float32, 1 for 8-bit. The GEMM rate"
                            + " stays that of bfloat16 (for this and 4: float32).")
    Double bytesPerParameter;

    @Option(
            names = "--bytes-per-kv-value",
            paramLabel = "N",
            description = "Of the KV cache. Default: 2, or 4 with weights of 4 or on a CPU that computes in float32.")
    Double bytesPerKvValue;

    /**
     * Puts the device together.
     *
     * @param probe measures this machine; asked only where that is the device
     * @throws InvalidPlanException naming the option
     */
    Target resolve(Supplier<CpuDeviceProbe.Rates> probe) {
        checkDeviceName();
        boolean measured = device.equals(THIS_DEVICE);
        CpuDeviceProbe.Rates rates = measured ? measure(probe) : null;
        Precision precision = precision(rates);
        DeviceSpec base = measured
                ? measuredDevice(rates, precision)
                : DeviceSpec.find(device).orElseThrow();
        return new Target(withOverrides(base).times(numDevices), precision, measured);
    }

    private void checkDeviceName() {
        List<String> names = new ArrayList<>(DeviceSpec.names());
        names.add(THIS_DEVICE);
        if (!names.contains(device)) {
            throw new InvalidPlanException(
                    "--device",
                    device,
                    "is not one of " + String.join(", ", names),
                    "describe another one by h100 with --device-memory, --memory-bandwidth, --peak-flops and"
                            + " --link-bandwidth" + nearest(device, names));
        }
    }

    static String nearest(String given, List<String> names) {
        return NearestName.of(given, names)
                .map(name -> "; did you mean " + name + "?")
                .orElse("");
    }

    private static CpuDeviceProbe.Rates measure(Supplier<CpuDeviceProbe.Rates> probe) {
        try {
            return probe.get();
        } catch (IllegalStateException e) {
            throw new InvalidPlanException(
                    "--device",
                    THIS_DEVICE,
                    e.getMessage(),
                    "or give --device " + String.join("|", DeviceSpec.names()));
        }
    }

    private Precision precision(CpuDeviceProbe.Rates rates) {
        boolean isFloat32 = rates != null && rates.bfloat16FlopsPerSecond().isEmpty();
        boolean areWide = isFloat32 && !rates.keepsBfloat16Weights();
        double parameter = bytesPerParameter == null ? (areWide ? 4 : 2) : bytesPerParameter;
        double kvValue = bytesPerKvValue == null ? (isFloat32 || parameter >= 4 ? 4 : 2) : bytesPerKvValue;
        return new Precision(parameter, kvValue);
    }

    /** The CPU: products at the rate of the weights' format, attention in float32 as the engine computes it. */
    private static DeviceSpec measuredDevice(CpuDeviceProbe.Rates rates, Precision precision) {
        boolean bfloat16 = precision.bytesPerParameter() < 4
                && rates.bfloat16FlopsPerSecond().isPresent();
        double gemmRate = bfloat16 ? rates.bfloat16FlopsPerSecond().getAsDouble() : rates.float32FlopsPerSecond();
        String source = "measured, best of several: reads and copies of " + (rates.bufferBytes() >> 20) + " MiB by "
                + rates.numThreads() + " threads; oneDNN " + (bfloat16 ? "bf16" : "float32") + " products of "
                + rates.productShape() + "; attention at the float32 product rate; link: memory copy";
        return new DeviceSpec(
                THIS_DEVICE,
                source,
                rates.memoryBytes(),
                new DeviceRates(rates.readBytesPerSecond(), gemmRate, rates.float32FlopsPerSecond()),
                rates.copyBytesPerSecond());
    }

    private DeviceSpec withOverrides(DeviceSpec base) {
        List<String> given = new ArrayList<>();
        DeviceRates rates = base.rates();
        if (memoryBandwidth != null || peakFlops != null) {
            rates = new DeviceRates(
                    override(memoryBandwidth, rates.memoryBytesPerSecond(), "--memory-bandwidth", given),
                    override(peakFlops, rates.gemmFlopsPerSecond(), "--peak-flops", given),
                    peakFlops == null ? rates.attentionFlopsPerSecond() : peakFlops);
        }
        double link = override(linkBandwidth, base.linkBytesPerSecond(), "--link-bandwidth", given);
        if (deviceMemoryBytes != null) {
            given.add("--device-memory");
        }
        return new DeviceSpec(
                base.name(),
                base.source() + (given.isEmpty() ? "" : "; given: " + String.join(", ", given)),
                deviceMemoryBytes == null ? base.memoryBytes() : deviceMemoryBytes,
                rates,
                link);
    }

    private static double override(Double value, double otherwise, String option, List<String> given) {
        if (value == null) {
            return otherwise;
        }
        given.add(option);
        return value;
    }
}
