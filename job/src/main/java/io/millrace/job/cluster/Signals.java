package io.millrace.job.cluster;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;

/**
 * Catches SIGTERM and SIGINT while open. A handler, not a shutdown hook: hooks of Flink run beside ours and delete files that
 * an orderly stop still needs. {@code sun.misc.Signal} is reached by reflection because the compiler warns of every other use.
 */
public final class Signals implements AutoCloseable {

    private record Caught(Object signal, Object previousHandler) {}

    private final Method handle;
    private final List<Caught> caught = new ArrayList<>();

    private Signals(Method handle) {
        this.handle = handle;
    }

    /**
     * Runs the action at the first TERM or INT; a second one ends the process at once, with 130.
     *
     * @param action called on a thread of the JVM's; must return soon
     */
    public static Signals onStop(Runnable action) {
        try {
            Class<?> signalType = Class.forName("sun.misc.Signal");
            Class<?> handlerType = Class.forName("sun.misc.SignalHandler");
            Signals signals = new Signals(signalType.getMethod("handle", signalType, handlerType));
            boolean[] stopping = new boolean[1];
            Object handler = Proxy.newProxyInstance(
                    Signals.class.getClassLoader(), new Class<?>[] {handlerType}, (proxy, method, arguments) -> {
                        switch (method.getName()) {
                            case "handle" -> stop(stopping, action);
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

    private static void stop(boolean[] stopping, Runnable action) {
        synchronized (stopping) {
            if (stopping[0]) {
                Runtime.getRuntime().halt(130);
            }
            stopping[0] = true;
        }
        action.run();
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
