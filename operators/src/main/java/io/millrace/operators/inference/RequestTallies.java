package io.millrace.operators.inference;

import io.millrace.schemas.RequestCounts;
import java.util.HashMap;

/** Sums of the counts that checkpoints carry. */
final class RequestTallies {
    private RequestTallies() {}

    static RequestCounts sum(Iterable<RequestCounts> parts) {
        RequestCounts sum = new RequestCounts(0L, 0L, new HashMap<>(), 0L, 0L, 0L, 0L, 0L);
        for (RequestCounts part : parts) {
            sum.setRecordsIn(sum.getRecordsIn() + part.getRecordsIn());
            sum.setCompleted(sum.getCompleted() + part.getCompleted());
            part.getFailedByCode().forEach((code, n) -> sum.getFailedByCode().merge(code, n, Long::sum));
            sum.setCompletions(sum.getCompletions() + part.getCompletions());
            sum.setPromptTokens(sum.getPromptTokens() + part.getPromptTokens());
            sum.setCachedTokens(sum.getCachedTokens() + part.getCachedTokens());
            sum.setCompletionTokens(sum.getCompletionTokens() + part.getCompletionTokens());
            sum.setTierTokens(sum.getTierTokens() + part.getTierTokens());
        }
        return sum;
    }

    /** A copy that later counting leaves alone: operator state is written out after the snapshot call returned. */
    static RequestCounts copy(RequestCounts counts) {
        RequestCounts copy = RequestCounts.newBuilder(counts).build();
        copy.setFailedByCode(new HashMap<>(counts.getFailedByCode()));
        return copy;
    }
}
