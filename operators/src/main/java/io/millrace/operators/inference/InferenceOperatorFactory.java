package io.millrace.operators.inference;

import io.millrace.operators.PipelineOptions;
import io.millrace.schemas.Completion;
import io.millrace.schemas.PreparedRequest;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.CoordinatedOperatorFactory;
import org.apache.flink.streaming.api.operators.OneInputStreamOperatorFactory;
import org.apache.flink.streaming.api.operators.StreamOperator;
import org.apache.flink.streaming.api.operators.StreamOperatorParameters;

/** Creates {@link InferenceOperator}s, which need the task's mailbox and a way to their coordinator. */
public final class InferenceOperatorFactory extends AbstractStreamOperatorFactory<Completion>
        implements OneInputStreamOperatorFactory<PreparedRequest, Completion>, CoordinatedOperatorFactory<Completion> {
    private static final long serialVersionUID = 1L;

    private final PipelineOptions options;
    private final long maxAdmissionWaitMillis;

    /** @param maxAdmissionWaitMillis longest that one record may wait for room in the engine before it overflows to state */
    public InferenceOperatorFactory(PipelineOptions options, long maxAdmissionWaitMillis) {
        this.options = options;
        this.maxAdmissionWaitMillis = maxAdmissionWaitMillis;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T extends StreamOperator<Completion>> T createStreamOperator(
            StreamOperatorParameters<Completion> parameters) {
        OperatorID operatorId = parameters.getStreamConfig().getOperatorID();
        return (T) new InferenceOperator(
                parameters,
                options,
                maxAdmissionWaitMillis,
                parameters.getOperatorEventDispatcher().getOperatorEventGateway(operatorId));
    }

    @Override
    public OperatorCoordinator.Provider getCoordinatorProvider(String operatorName, OperatorID operatorId) {
        return new JobCountsCoordinator.Provider(operatorId);
    }

    @Override
    @SuppressWarnings("rawtypes")
    public Class<? extends StreamOperator> getStreamOperatorClass(ClassLoader classLoader) {
        return InferenceOperator.class;
    }
}
