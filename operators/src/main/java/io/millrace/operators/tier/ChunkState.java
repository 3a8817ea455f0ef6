package io.millrace.operators.tier;

import io.millrace.prefix.ChunkKey;
import io.millrace.schemas.ChunkManifest;

/**
 * Pieces and manifests under an affinity key, wherever they lie. Task thread only; calls may change the current key and may
 * throw whatever the storage throws.
 */
interface ChunkState {
    /** The piece's bytes, or null if it is not there. */
    byte[] readPiece(long affinityKey, ChunkKey key, int piece) throws Exception;

    /** Writes a copy: the array is used again. */
    void writePiece(long affinityKey, ChunkKey key, int piece, byte[] bytes) throws Exception;

    void removePiece(long affinityKey, ChunkKey key, int piece) throws Exception;

    void putManifest(long affinityKey, ChunkKey key, ChunkManifest manifest) throws Exception;

    void removeManifest(long affinityKey, ChunkKey key) throws Exception;

    /** Takes a stored manifest. */
    interface Visitor {
        void visit(long affinityKey, ChunkKey key, ChunkManifest manifest) throws Exception;
    }

    /** Shows every manifest of this subtask's key groups; the visitor must not change the state. */
    void forEachManifest(Visitor visitor) throws Exception;
}
