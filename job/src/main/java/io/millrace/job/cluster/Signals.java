package io.millrace.job.cluster;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Catches SIGTERM and SIGINT while open. A handler, not a shutdown hook: hooks of Flink run beside ours and delete files that
 * an orderly stop still needs. {@code sun.misc.Signal} is reached by reflection because the compiler warns of every other use.
 */
public final class Signals implements AutoCloseable {

    /** Signals closer together than this are one wish to stop. */
    private static final long SAME_WISH_NANOS = 1_000_000_000L;

    private record Caught(Object signal, Object previousHandler) {}

    private final Method handle;
    private final List<Caught> caught = new ArrayList<>();

    private Signals(Method handle) {
        this.handle = handle;
    }

    /**
     * Runs the action at the first TERM or INT; another one, a second later at the earliest, ends the process at once, with
     * 130. What comes sooner is the same wish: a terminal signals every process of a group, and a wrapper passes on what it
     * got.
     *
     * @param action called on a thread of the JVM's; must return soon
     */
    public static Signals onStop(Runnable action) {
        try {
            Class<?> signalType = Class.forName("sun.misc.Signal");
            Class<?> handlerType = Class.forName("sun.misc.SignalHandler");
            Signals signals = new Signals(signalType.getMethod("handle", signalType, handlerType));
            AtomicReference<Long> stoppingSinceNanos = new AtomicReference<>();
            Object handler = Proxy.newProxyInstance(
                    Signals.class.getClassLoader(), new Class<?>[] {handlerType}, (proxy, method, arguments) -> {
                        switch (method.getName()) {
                            case "handle" -> stop(stoppingSinceNanos, action);
                            case "equals" -> {
                                return proxy == arguments[0];
                            }
                            case "hashCode" -> {
                                return System.identityHashCode(proxy);
                            }
                            case "toString" -> {
                                return "stop handler";
                            }
                            default -> throw new UnsupportedOperationException(method.getName());
                        }
                        return null;
                    });
            for (String name : List.of("TERM", "INT")) {
                Object signal = signalType.getConstructor(String.class).newInstance(name);
                signals.caught.add(new Caught(signal, signals.handle.invoke(null, signal, handler)));
            }
            return signals;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("this JVM lets nobody handle SIGTERM: " + e, e);
        }
    }

    private static void stop(AtomicReference<Long> stoppingSinceNanos, Runnable action) {
        long now = System.nanoTime();
        if (stoppingSinceNanos.compareAndSet(null, now)) {
            action.run();
        } else if (now - stoppingSinceNanos.get() >= SAME_WISH_NANOS) {
            System.err.println("ended at once by a second signal");
            Runtime.getRuntime().halt(130);
        }
    }

    /** Gives the signals back to whoever handled them before. */
    @Override
    public void close() {
        for (Caught one : caught) {
            try {
                handle.invoke(null, one.signal(), one.previousHandler());
            } catch (IllegalAccessException | InvocationTargetException e) {
                throw new IllegalStateException("the signal handler could not be put back: " + e, e);
            }
        }
        caught.clear();
    }
}
