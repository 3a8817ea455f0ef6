package io.millrace.job.cluster;

/** The embedded cluster or its job did not do what was asked; the message says what and what to do. */
public final class ClusterException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public ClusterException(String message, Throwable cause) {
        super(message, cause);
    }

    public ClusterException(String message) {
        super(message);
    }

    /** What the innermost cause says: what a user can act on, without Flink's wrappings. */
    public static String rootMessage(Throwable failure) {
        Throwable root = root(failure);
        return root.getMessage() == null ? root.toString() : root.getMessage();
    }

    static Throwable root(Throwable failure) {
        Throwable root = failure;
        while (root.getCause() != null && root.getCause() != root) {
            root = root.getCause();
        }
        return root;
    }
}
