package io.millrace.operators.tier;

import io.millrace.operators.tier.ChunkIndex.Place;
import io.millrace.prefix.ChunkKey;
import io.millrace.schemas.ChunkManifest;
import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** Chunk state in maps, whose reads and writes can be made to fail. */
final class HeapChunkState implements ChunkState {
    record PieceKey(Place place, int piece) {}

    final Map<PieceKey, byte[]> pieces = new HashMap<>();
    final Map<Place, ChunkManifest> manifests = new HashMap<>();
    final Set<PieceKey> broken = new HashSet<>();
    boolean readOnly;

    @Override
    public byte[] readPiece(long affinityKey, ChunkKey key, int piece) throws IOException {
        PieceKey pieceKey = new PieceKey(new Place(affinityKey, key), piece);
        if (broken.contains(pieceKey)) {
            throw new IOException("block checksum mismatch");
        }
        byte[] bytes = pieces.get(pieceKey);
        return bytes == null ? null : bytes.clone();
    }

    @Override
    public void writePiece(long affinityKey, ChunkKey key, int piece, byte[] bytes) throws IOException {
        failIfReadOnly();
        pieces.put(new PieceKey(new Place(affinityKey, key), piece), bytes.clone());
    }

    @Override
    public void removePiece(long affinityKey, ChunkKey key, int piece) throws IOException {
        failIfReadOnly();
        pieces.remove(new PieceKey(new Place(affinityKey, key), piece));
    }

    @Override
    public void putManifest(long affinityKey, ChunkKey key, ChunkManifest manifest) throws IOException {
        failIfReadOnly();
        manifests.put(new Place(affinityKey, key), manifest);
    }

    @Override
    public void removeManifest(long affinityKey, ChunkKey key) throws IOException {
        failIfReadOnly();
        manifests.remove(new Place(affinityKey, key));
    }

    @Override
    public void forEachManifest(Visitor visitor) throws Exception {
        for (Map.Entry<Place, ChunkManifest> entry : manifests.entrySet()) {
            visitor.visit(entry.getKey().affinityKey(), entry.getKey().key(), entry.getValue());
        }
    }

    private void failIfReadOnly() throws IOException {
        if (readOnly) {
            throw new IOException("no space left on device");
        }
    }
}
