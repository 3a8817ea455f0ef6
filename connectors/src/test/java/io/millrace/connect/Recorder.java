package io.millrace.connect;

import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Hands records on and notes, for the test that runs in the same JVM, what passed through which subtask. */
public final class Recorder<T> extends AbstractStreamOperator<T> implements OneInputStreamOperator<T, T> {
    private static final long serialVersionUID = 1L;
    private static final Map<String, Notes> NOTES = new ConcurrentHashMap<>();

    private final String name;

    /** What one recorder saw, over all its subtasks and attempts. */
    public static final class Notes {
        public final Queue<Object> records = new ConcurrentLinkedQueue<>();
        public final Queue<Long> watermarks = new ConcurrentLinkedQueue<>();
        public final Set<Integer> endedSubtasks = ConcurrentHashMap.newKeySet();

        public void awaitEnd(int numSubtasks) throws InterruptedException {
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (endedSubtasks.size() < numSubtasks) {
                if (System.nanoTime() > deadline) {
                    throw new AssertionError("no end of input within 60 s at " + numSubtasks + " subtasks, only at "
                            + endedSubtasks + "; " + records.size() + " records");
                }
                Thread.sleep(5);
            }
        }
    }

    public Recorder(String name) {
        this.name = name;
    }

    public static Notes freshNotes(String name) {
        Notes notes = new Notes();
        NOTES.put(name, notes);
        return notes;
    }

    @Override
    public void open() throws Exception {
        super.open();
        NOTES.get(name).endedSubtasks.remove(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
    }

    @Override
    public void processElement(StreamRecord<T> element) {
        NOTES.get(name).records.add(element.getValue());
        output.collect(element);
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
        NOTES.get(name).watermarks.add(mark.getTimestamp());
        if (mark.equals(Watermark.MAX_WATERMARK)) {
            NOTES.get(name).endedSubtasks.add(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
        }
        super.processWatermark(mark);
    }
}
