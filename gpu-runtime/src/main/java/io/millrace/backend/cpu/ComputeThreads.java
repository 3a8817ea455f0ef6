package io.millrace.backend.cpu;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The process's compute threads. All of them run each submitted program together, as one crew: every worker walks through
 * the whole program, which is a sequence of phases, and the tasks of a phase are shared out among the workers that are
 * there. A phase is over when its tasks are done, not when every worker has come by: one that the operating system keeps
 * off its core holds nobody up, and later skips what the others did without it. Programs of several backends run one
 * after another, in order of submission, so that two engines in one process share the cores rather than fight for them.
 *
 * <p>Waiting workers spin for a short while and then park. {@link #submit} may be called by any thread.
 */
final class ComputeThreads {
    private static final Logger LOG = LoggerFactory.getLogger(ComputeThreads.class);

    /** At the end of a phase. */
    private static final long SPIN_NANOS = 50_000;

    /** To be woken takes tens of microseconds, which count in steps of a small model and in no longer ones. */
    private static final long YIELD_NANOS = 1_000_000;

    /**
     * Where workers take all cores: one that has not begun by then may be waiting for the core of another one, while the thread
     * that waits for both keeps a core busy. Asleep, that thread leaves its core to the worker.
     */
    private static final long GIVE_WAY_NANOS = 20_000;

    /** Between programs: what an engine does between two steps of a few sequences, with room. */
    private static final long IDLE_SPIN_NANOS = 200_000;

    private static ComputeThreads shared;
    private static int numHolders;

    private final Worker[] workers;
    private final long spinNanos;
    private final long idleSpinNanos;
    private final long giveWayNanos; // of a thread that waits while a worker has not begun
    private Job tail;

    /** What a crew runs. */
    interface Program {
        /** Runs on every worker; an exception ends the program on all of them. Workers must agree on the phases. */
        void run(Worker worker);
    }

    /**
     * Takes a hold on the process's threads, starting them if there are none.
     *
     * @param numThreads wanted; 0 means one per available processor. While others hold the threads, their number stays.
     */
    static synchronized ComputeThreads acquire(int numThreads) {
        int wanted = numThreads == 0 ? Runtime.getRuntime().availableProcessors() : numThreads;
        if (shared == null) {
            shared = new ComputeThreads(wanted);
        } else if (numThreads != 0 && shared.numThreads() != wanted) {
            LOG.warn(
                    "{} compute threads asked for, but another engine of this process already runs {}: they are shared."
                            + " Give both engines the same --num-threads",
                    wanted,
                    shared.numThreads());
        }
        numHolders++;
        return shared;
    }

    /** Gives a hold back; the last one stops and joins the threads. */
    static void release(ComputeThreads threads) {
        synchronized (ComputeThreads.class) {
            if (threads != shared || --numHolders > 0) {
                return;
            }
            shared = null;
        }
        threads.stop();
    }

    private ComputeThreads(int numThreads) {
        // Spinning helps only where every worker has a core of its own.
        int numCores = Runtime.getRuntime().availableProcessors();
        boolean haveCores = numThreads <= numCores;
        spinNanos = haveCores ? SPIN_NANOS : 0;
        idleSpinNanos = haveCores ? IDLE_SPIN_NANOS : 0;
        giveWayNanos = numThreads >= numCores ? GIVE_WAY_NANOS : YIELD_NANOS;
        tail = new Job(null, numThreads, giveWayNanos);
        workers = new Worker[numThreads];
        for (int i = 0; i < numThreads; i++) {
            workers[i] = new Worker(i, tail);
        }
        for (Worker worker : workers) {
            worker.thread.start();
        }
    }

    int numThreads() {
        return workers.length;
    }

    /** Queues a program; the returned job is awaited by one thread. */
    Job submit(Program program) {
        Job job = new Job(program, workers.length, giveWayNanos);
        synchronized (this) {
            tail.next = job;
            tail = job;
        }
        wakeParked();
        return job;
    }

    /** Runs a program and waits for its end. */
    void run(Program program) {
        submit(program).await();
    }

    private void wakeParked() {
        for (Worker worker : workers) {
            if (worker.isParked) {
                LockSupport.unpark(worker.thread);
            }
        }
    }

    private void stop() {
        Job job = submit(null);
        boolean wasInterrupted = false;
        for (Worker worker : workers) {
            while (worker.thread.isAlive()) {
                try {
                    worker.thread.join();
                } catch (InterruptedException e) {
                    wasInterrupted = true;
                }
            }
        }
        job.await();
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** A submitted program on its way through the workers. */
    static final class Job {
        private final Program program;
        private final long giveWayNanos;

        /** The current phase in the upper half, its next task in the lower. */
        private final AtomicLong phaseAndTask = new AtomicLong();

        private final AtomicInteger numTasksDone = new AtomicInteger();
        private final AtomicInteger numRunning;
        private final AtomicInteger numToBegin;
        private volatile Throwable failure;
        private volatile Job next;
        private volatile Thread awaiter;

        private Job(Program program, int numWorkers, long giveWayNanos) {
            this.program = program;
            this.giveWayNanos = giveWayNanos;
            this.numRunning = new AtomicInteger(numWorkers);
            this.numToBegin = new AtomicInteger(numWorkers);
        }

        /** Waits for every worker; rethrows what one of them threw. */
        void await() {
            awaiter = Thread.currentThread();
            boolean wasInterrupted = false;
            long begun = System.nanoTime();
            long waited = 0;
            while (numRunning.get() > 0 && waited < (numToBegin.get() > 0 ? giveWayNanos : YIELD_NANOS)) {
                Thread.yield();
                waited = System.nanoTime() - begun;
            }
            while (numRunning.get() > 0) {
                LockSupport.park(this);
                wasInterrupted |= Thread.interrupted();
            }
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
            Throwable thrown = failure;
            if (thrown instanceof RuntimeException exception) {
                throw exception;
            }
            if (thrown instanceof Error error) {
                throw error;
            }
        }

        private synchronized void fail(Throwable thrown) {
            if (failure == null) {
                failure = thrown;
            }
        }

        private void endWorker() {
            if (numRunning.decrementAndGet() == 0) {
                LockSupport.unpark(awaiter);
            }
        }
    }

    /** Ends a program on the workers that did not fail themselves. */
    private static final class Abandoned extends RuntimeException {
        private static final long serialVersionUID = 1L;
        private static final Abandoned INSTANCE = new Abandoned();

        private Abandoned() {
            super("another worker failed", null, false, false);
        }
    }

    /** One compute thread. Its methods are for the program that it runs. */
    final class Worker {
        private final int index;
        private final Thread thread;
        private volatile boolean isParked;
        private Job job;
        private int phase;
        private int numTasks;

        private Worker(int index, Job first) {
            this.index = index;
            this.job = first;
            this.thread = new Thread(this::loop, "millrace-compute-" + index);
            thread.setDaemon(true);
            thread.setContextClassLoader(ComputeThreads.class.getClassLoader());
        }

        int index() {
            return index;
        }

        int numWorkers() {
            return workers.length;
        }

        /**
         * Enters the program's next phase and takes one of its tasks; see {@link #nextTask}. All workers must give the
         * same number; a phase of no tasks is none.
         */
        int firstTask(int ofNumTasks) {
            if (ofNumTasks == 0) {
                return -1;
            }
            numTasks = ofNumTasks;
            return takeTask();
        }

        /**
         * Ends the task taken before and takes another one. Returns -1 once the whole phase is over; what any worker
         * wrote in it is then visible to all.
         */
        int nextTask() {
            if (job.numTasksDone.incrementAndGet() == numTasks) {
                job.numTasksDone.set(0);
                job.phaseAndTask.set((phase + 1L) << 32);
                wakeParked();
            }
            return takeTask();
        }

        private int takeTask() {
            Job current = job;
            while (true) {
                long state = current.phaseAndTask.get();
                int task = (int) state;
                if (state >>> 32 != phase || task >= numTasks) {
                    waitUntilOver(current);
                    phase++;
                    return -1;
                }
                if (current.phaseAndTask.compareAndSet(state, state + 1)) {
                    return task;
                }
            }
        }

        private boolean isOver(Job current) {
            return current.phaseAndTask.get() >>> 32 != phase || current.failure != null;
        }

        private void waitUntilOver(Job current) {
            long spinEnd = 0;
            int spins = 0;
            while (!isOver(current)) {
                if ((++spins & 31) != 0) {
                    Thread.onSpinWait();
                } else if (spinEnd == 0) {
                    spinEnd = System.nanoTime() + spinNanos;
                } else if (System.nanoTime() > spinEnd) {
                    isParked = true;
                    if (!isOver(current)) {
                        LockSupport.park(this);
                    }
                    isParked = false;
                }
            }
            if (current.failure != null) {
                throw Abandoned.INSTANCE;
            }
        }

        private Job awaitNext() {
            Job last = job;
            long spinEnd = System.nanoTime() + idleSpinNanos;
            int spins = 0;
            while (last.next == null) {
                if ((++spins & 31) != 0) {
                    Thread.onSpinWait();
                } else if (System.nanoTime() < spinEnd) {
                    Thread.yield(); // the thread that submits the next program may have no core but this one
                } else {
                    isParked = true;
                    if (last.next == null) {
                        LockSupport.park(this);
                    }
                    isParked = false;
                }
            }
            return last.next;
        }

        private void loop() {
            try {
                OneDnn.useOneThreadPerCall();
            } catch (RuntimeException | Error e) {
                LOG.error("compute thread {} cannot start", index, e);
                startFailure = e;
            }
            while (true) {
                Job current = awaitNext();
                job = current;
                phase = 0;
                if (current.program == null) {
                    current.endWorker();
                    return;
                }
                try {
                    if (startFailure != null) {
                        throw new IllegalStateException(startFailure.getMessage(), startFailure);
                    }
                    current.numToBegin.decrementAndGet();
                    current.program.run(this);
                } catch (Abandoned e) {
                    // The failure is recorded already.
                } catch (Throwable e) {
                    current.fail(e);
                    wakeParked();
                } finally {
                    current.endWorker();
                }
            }
        }

        private Throwable startFailure;
    }
}
