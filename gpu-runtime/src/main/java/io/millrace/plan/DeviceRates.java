package io.millrace.plan;

/**
 * How fast a device is, published or measured.
 *
 * @param memoryBytesPerSecond BW: what streaming reads reach
 * @param gemmFlopsPerSecond P: what large GEMMs reach in the compute dtype
 * @param attentionFlopsPerSecond what attention reaches; P where attention runs on the same units
 */
public record DeviceRates(double memoryBytesPerSecond, double gemmFlopsPerSecond, double attentionFlopsPerSecond) {

    public DeviceRates {
        InvalidPlanException.requirePositive("--memory-bandwidth", memoryBytesPerSecond, "try 3.35t (bytes/s)");
        InvalidPlanException.requirePositive("--peak-flops", gemmFlopsPerSecond, "try 989t (FLOP/s)");
        InvalidPlanException.requirePositive("--attention-flops", attentionFlopsPerSecond, "try 989t (FLOP/s)");
    }

    /** One rate of compute for everything. */
    public static DeviceRates of(double memoryBytesPerSecond, double flopsPerSecond) {
        return new DeviceRates(memoryBytesPerSecond, flopsPerSecond, flopsPerSecond);
    }

    /** GEMM FLOPs per byte at which reading and computing take equally long. */
    public double flopsPerByte() {
        return gemmFlopsPerSecond / memoryBytesPerSecond;
    }

    /** Of several devices that share every step evenly; what they say to each other costs nothing here. */
    public DeviceRates times(int numDevices) {
        return new DeviceRates(
                memoryBytesPerSecond * numDevices,
                gemmFlopsPerSecond * numDevices,
                attentionFlopsPerSecond * numDevices);
    }
}
