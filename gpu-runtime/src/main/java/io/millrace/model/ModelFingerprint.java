package io.millrace.model;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** Hashes a model's content in a framed form: each item is its name, its length and its bytes. Single use. */
final class ModelFingerprint {
    private static final int BUFFER_BYTES = 1 << 20;

    private final MessageDigest digest;
    private final byte[] buffer = new byte[BUFFER_BYTES];

    ModelFingerprint() {
        try {
            digest = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }

    String compute(Path directory, Safetensors tensors) {
        for (String name : ModelDirectory.fingerprintedFiles()) {
            Path file = directory.resolve(name);
            if (Files.exists(file)) {
                addFile(name, file);
            }
        }
        for (String name : tensors.names()) {
            addTensor(tensors.tensor(name));
        }
        StringBuilder hex = new StringBuilder();
        for (byte b : digest.digest()) {
            hex.append(Character.forDigit(b >> 4 & 0xf, 16)).append(Character.forDigit(b & 0xf, 16));
        }
        return hex.toString();
    }

    private void addFile(String name, Path file) {
        try {
            byte[] content = Files.readAllBytes(file);
            addText(name);
            addLong(content.length);
            digest.update(content);
        } catch (IOException e) {
            throw new InvalidModelException(file + " cannot be read: " + e, e);
        }
    }

    private void addTensor(Tensor tensor) {
        addText(tensor.name());
        addText(tensor.storageType().name());
        long[] shape = tensor.shape();
        addLong(shape.length);
        for (long dimension : shape) {
            addLong(dimension);
        }
        for (long done = 0; done < tensor.sizeBytes(); ) {
            int count = (int) Math.min(BUFFER_BYTES, tensor.sizeBytes() - done);
            tensor.readBytes(done, buffer, 0, count);
            digest.update(buffer, 0, count);
            done += count;
        }
    }

    private void addText(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        addLong(bytes.length);
        digest.update(bytes);
    }

    private void addLong(long value) {
        digest.update(ByteBuffer.allocate(Long.BYTES).putLong(0, value));
    }
}
