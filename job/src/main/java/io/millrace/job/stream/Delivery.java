package io.millrace.job.stream;

import org.apache.flink.connector.base.DeliveryGuarantee;

/** When results show. */
public enum Delivery {
    /** With each checkpoint, once, to readers with read_committed. */
    EXACTLY_ONCE(DeliveryGuarantee.EXACTLY_ONCE),
    /** At once; after a failure some again, with equal bits, de-duplicable by request_id and index. */
    AT_LEAST_ONCE(DeliveryGuarantee.AT_LEAST_ONCE);

    private final DeliveryGuarantee guarantee;

    Delivery(DeliveryGuarantee guarantee) {
        this.guarantee = guarantee;
    }

    DeliveryGuarantee guarantee() {
        return guarantee;
    }
}
