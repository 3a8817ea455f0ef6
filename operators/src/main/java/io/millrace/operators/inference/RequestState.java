package io.millrace.operators.inference;

import io.millrace.schemas.LedgerRequest;
import io.millrace.schemas.RequestProgress;
import java.util.Map;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;

/**
 * Keyed state of requests in flight, under the routing key: the record from arrival to the last emission, and apart from it
 * the progress, which only checkpoints write. Lives on disk with the RocksDB backend. Task thread only; the operator sets
 * the current key.
 */
final class RequestState {
    private static final MapStateDescriptor<String, LedgerRequest> REQUESTS =
            new MapStateDescriptor<>("requests", Types.STRING, new AvroTypeInfo<>(LedgerRequest.class));
    private static final MapStateDescriptor<String, RequestProgress> PROGRESS =
            new MapStateDescriptor<>("progress", Types.STRING, new AvroTypeInfo<>(RequestProgress.class));

    private final MapState<String, LedgerRequest> requests;
    private final MapState<String, RequestProgress> progress;

    RequestState(KeyedStateStore store) {
        requests = store.getMapState(REQUESTS);
        progress = store.getMapState(PROGRESS);
    }

    void put(LedgerRequest request) throws Exception {
        requests.put(request.getRequest().getUid(), request);
    }

    LedgerRequest request(String uid) throws Exception {
        return requests.get(uid);
    }

    RequestProgress progress(String uid) throws Exception {
        return progress.get(uid);
    }

    void putProgress(String uid, RequestProgress value) throws Exception {
        progress.put(uid, value);
    }

    void remove(String uid) throws Exception {
        requests.remove(uid);
        progress.remove(uid);
    }

    /** Takes every request of this subtask's key groups, with its progress or null. */
    interface Visitor {
        void visit(LedgerRequest request, RequestProgress progress) throws Exception;
    }

    void forEach(KeyedStateBackend<Long> backend, Visitor visitor) throws Exception {
        backend.applyToAllKeys(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, REQUESTS, (key, entries) -> {
            for (Map.Entry<String, LedgerRequest> entry : entries.entries()) {
                visitor.visit(entry.getValue(), progress.get(entry.getKey()));
            }
        });
    }
}
