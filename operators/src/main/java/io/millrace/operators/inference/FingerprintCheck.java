package io.millrace.operators.inference;

import org.apache.flink.runtime.execution.SuppressRestartsException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Compares the numeric fingerprints in a checkpoint with this start's. */
final class FingerprintCheck {
    private static final Logger LOG = LoggerFactory.getLogger(FingerprintCheck.class);

    private FingerprintCheck() {}

    /**
     * Refuses a checkpoint of another fingerprint, for good; only warns where a change is allowed.
     *
     * @throws SuppressRestartsException since no restart would mend it
     */
    static void check(Iterable<String> restored, String current, boolean allowChange) {
        for (String other : restored) {
            if (other.equals(current)) {
                continue;
            }
            String message = "the checkpoint was taken with numeric fingerprint " + other
                    + " and this machine, model or configuration has " + current
                    + ": resumed samples would not equal an undisturbed run's";
            if (!allowChange) {
                throw new SuppressRestartsException(new IllegalStateException(
                        message + "; restore on the same kind of machine, or pass --allow-fingerprint-change"));
            }
            LOG.warn("{}; going on since --allow-fingerprint-change is set", message);
        }
    }
}
