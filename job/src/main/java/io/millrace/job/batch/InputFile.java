package io.millrace.job.batch;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/**
 * What a file holds, from one pass over it.
 *
 * @param sizeBytes its size
 * @param sha256 hash of its bytes, hexadecimal
 * @param numRecords lines that are not blank
 */
record InputFile(long sizeBytes, String sha256, long numRecords) {

    private static final int BUFFER_BYTES = 1 << 20;

    static InputFile read(Path file) {
        try (InputStream in = Files.newInputStream(file)) {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            byte[] buffer = new byte[BUFFER_BYTES];
            long sizeBytes = 0;
            long numRecords = 0;
            boolean lineHasText = false;
            for (int numRead = in.read(buffer); numRead >= 0; numRead = in.read(buffer)) {
                digest.update(buffer, 0, numRead);
                sizeBytes += numRead;
                for (int i = 0; i < numRead; i++) {
                    byte c = buffer[i];
                    if (c == '\n') {
                        numRecords += lineHasText ? 1 : 0;
                        lineHasText = false;
                    } else if (c != ' ' && c != '\t' && c != '\r') {
                        lineHasText = true;
                    }
                }
            }
            numRecords += lineHasText ? 1 : 0;
            return new InputFile(sizeBytes, HexFormat.of().formatHex(digest.digest()), numRecords);
        } catch (IOException e) {
            throw new UncheckedIOException("input " + file + " could not be read: " + e.getMessage(), e);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }
}
