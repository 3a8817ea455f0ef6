package io.millrace.operators.tier;

import io.millrace.prefix.ChunkKey;
import io.millrace.schemas.ChunkManifest;
import java.util.Map;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;

/**
 * Chunks in Flink's keyed state, under the requests' routing key, so that they move with its key group. Pieces and
 * manifests are states of their own: on RocksDB, looking for an entry reads its value, and iterating over entries reads
 * all of them.
 */
final class KeyedChunkState implements ChunkState {
    private static final MapStateDescriptor<Tuple3<Long, Long, Integer>, byte[]> PIECES = new MapStateDescriptor<>(
            "prefix-pieces",
            Types.TUPLE(Types.LONG, Types.LONG, Types.INT),
            PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
    private static final MapStateDescriptor<Tuple2<Long, Long>, ChunkManifest> MANIFESTS = new MapStateDescriptor<>(
            "prefix-manifests", Types.TUPLE(Types.LONG, Types.LONG), new AvroTypeInfo<>(ChunkManifest.class));

    private final KeyedStateBackend<Long> backend;
    private final MapState<Tuple3<Long, Long, Integer>, byte[]> pieces;
    private final MapState<Tuple2<Long, Long>, ChunkManifest> manifests;

    KeyedChunkState(KeyedStateStore store, KeyedStateBackend<Long> backend) {
        this.backend = backend;
        pieces = store.getMapState(PIECES);
        manifests = store.getMapState(MANIFESTS);
    }

    @Override
    public byte[] readPiece(long affinityKey, ChunkKey key, int piece) throws Exception {
        backend.setCurrentKey(affinityKey);
        return pieces.get(pieceKey(key, piece));
    }

    @Override
    public void writePiece(long affinityKey, ChunkKey key, int piece, byte[] bytes) throws Exception {
        backend.setCurrentKey(affinityKey);
        pieces.put(pieceKey(key, piece), bytes);
    }

    @Override
    public void removePiece(long affinityKey, ChunkKey key, int piece) throws Exception {
        backend.setCurrentKey(affinityKey);
        pieces.remove(pieceKey(key, piece));
    }

    @Override
    public void putManifest(long affinityKey, ChunkKey key, ChunkManifest manifest) throws Exception {
        backend.setCurrentKey(affinityKey);
        manifests.put(Tuple2.of(key.high(), key.low()), manifest);
    }

    @Override
    public void removeManifest(long affinityKey, ChunkKey key) throws Exception {
        backend.setCurrentKey(affinityKey);
        manifests.remove(Tuple2.of(key.high(), key.low()));
    }

    @Override
    public void forEachManifest(Visitor visitor) throws Exception {
        backend.applyToAllKeys(VoidNamespace.INSTANCE, VoidNamespaceSerializer.INSTANCE, MANIFESTS, (key, entries) -> {
            for (Map.Entry<Tuple2<Long, Long>, ChunkManifest> entry : entries.entries()) {
                visitor.visit(key, new ChunkKey(entry.getKey().f0, entry.getKey().f1), entry.getValue());
            }
        });
    }

    private static Tuple3<Long, Long, Integer> pieceKey(ChunkKey key, int piece) {
        return Tuple3.of(key.high(), key.low(), piece);
    }
}
