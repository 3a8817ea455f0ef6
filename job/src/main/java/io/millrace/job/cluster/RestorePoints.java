package io.millrace.job.cluster;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.checkpoint.OperatorState;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.checkpoint.metadata.CheckpointMetadata;
import org.apache.flink.runtime.state.AbstractChannelStateHandle;
import org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle;
import org.apache.flink.runtime.state.KeyGroupsStateHandle;
import org.apache.flink.runtime.state.OperatorStateHandle;
import org.apache.flink.runtime.state.StateObject;
import org.apache.flink.runtime.state.StreamStateHandle;
import org.apache.flink.runtime.state.filesystem.FileStateHandle;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds what a start can resume from in a state directory: the checkpoint or savepoint with the highest number whose metadata
 * can be read and whose files are all there. The numbers grow over all starts because each start goes on from the newest.
 */
public final class RestorePoints {

    private static final Logger LOG = LoggerFactory.getLogger(RestorePoints.class);
    private static final String METADATA = "_metadata";

    private RestorePoints() {}

    /**
     * The newest point that is whole; those that are not are passed over with a warning that names them.
     *
     * @throws UncheckedIOException if the directories cannot be listed
     */
    public static Optional<RestorePoint> newest(ClusterOptions options) {
        List<RestorePoint> points = new ArrayList<>();
        points.addAll(under(options.checkpointDirectory(), 3));
        points.addAll(under(options.savepointDirectory(), 2));
        return points.stream()
                .max(Comparator.comparingLong(RestorePoint::checkpointId)
                        .thenComparing(RestorePoint::savepoint)
                        .thenComparing(RestorePoint::takenAt));
    }

    private static List<RestorePoint> under(Path root, int depth) {
        if (!Files.isDirectory(root)) {
            return List.of();
        }
        List<Path> metadataFiles;
        try (Stream<Path> files = Files.walk(root, depth)) {
            metadataFiles = files.filter(file -> file.endsWith(METADATA)).toList();
        } catch (IOException e) {
            throw new UncheckedIOException("the checkpoints under " + root + " cannot be listed", e);
        }
        List<RestorePoint> points = new ArrayList<>();
        for (Path metadata : metadataFiles) {
            try {
                points.add(read(metadata));
            } catch (IOException | RuntimeException e) {
                LOG.warn("{} is passed over: {}", metadata.getParent(), e.getMessage());
            }
        }
        return points;
    }

    private static RestorePoint read(Path metadataFile) throws IOException {
        CheckpointMetadata metadata;
        try (DataInputStream in =
                new DataInputStream(new java.io.BufferedInputStream(Files.newInputStream(metadataFile)))) {
            metadata = Checkpoints.loadCheckpointMetadata(
                    in,
                    RestorePoints.class.getClassLoader(),
                    metadataFile.getParent().toUri().toString());
        }
        for (OperatorState operator : metadata.getOperatorStates()) {
            for (OperatorSubtaskState subtask : operator.getStates()) {
                for (StateObject state : subtask.getDiscardables()) {
                    checkFiles(state);
                }
            }
            if (operator.getCoordinatorState() != null) {
                checkFile(operator.getCoordinatorState());
            }
        }
        boolean savepoint = metadata.getCheckpointProperties() == null
                || metadata.getCheckpointProperties().isSavepoint();
        return new RestorePoint(
                metadataFile.getParent(),
                metadata.getCheckpointId(),
                savepoint,
                Files.getLastModifiedTime(metadataFile).toInstant());
    }

    private static void checkFiles(StateObject state) throws IOException {
        if (state instanceof IncrementalRemoteKeyedStateHandle incremental) {
            checkFile(incremental.getMetaDataStateHandle());
            for (var file : incremental.getSharedState()) {
                checkFile(file.getHandle());
            }
            for (var file : incremental.getPrivateState()) {
                checkFile(file.getHandle());
            }
        } else if (state instanceof KeyGroupsStateHandle keyGroups) {
            checkFile(keyGroups.getDelegateStateHandle());
        } else if (state instanceof OperatorStateHandle operator) {
            checkFile(operator.getDelegateStateHandle());
        } else if (state instanceof AbstractChannelStateHandle<?> channel) {
            checkFile(channel.getDelegate());
        } else if (state instanceof StreamStateHandle stream) {
            checkFile(stream);
        }
    }

    private static void checkFile(StreamStateHandle handle) throws IOException {
        if (handle instanceof FileStateHandle file) {
            Path path = Path.of(file.getFilePath().toUri().getPath());
            long expected = file.getStateSize();
            if (!Files.isRegularFile(path) || Files.size(path) != expected) {
                throw new IOException("its file " + path + " of " + expected + " bytes is missing or cut");
            }
        }
    }
}
