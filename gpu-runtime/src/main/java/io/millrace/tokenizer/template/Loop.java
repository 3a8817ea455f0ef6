package io.millrace.tokenizer.template;

import java.util.List;
import java.util.Objects;

/** The loop variable of one running for. */
final class Loop {
    private final List<Object> items;
    private int index;
    private List<Object> lastChanged;

    Loop(List<Object> items) {
        this.items = items;
    }

    void moveTo(int newIndex) {
        index = newIndex;
    }

    Object attribute(String name) {
        int size = items.size();
        return switch (name) {
            case "index" -> (long) index + 1;
            case "index0" -> (long) index;
            case "revindex" -> (long) size - index;
            case "revindex0" -> (long) size - index - 1;
            case "first" -> index == 0;
            case "last" -> index == size - 1;
            case "length" -> (long) size;
            case "depth" -> 1L;
            case "depth0" -> 0L;
            case "previtem" -> index > 0 ? items.get(index - 1) : new Undefined("there is no previous item");
            case "nextitem" -> index + 1 < size ? items.get(index + 1) : new Undefined("there is no next item");
            case "cycle" ->
                (Callable) arguments -> {
                    if (arguments.positional().isEmpty()) {
                        throw new TemplateException("loop.cycle needs at least one value");
                    }
                    return arguments
                            .positional()
                            .get(index % arguments.positional().size());
                };
            case "changed" -> (Callable) this::changed;
            default -> new Undefined("'loop' has no attribute '" + name + "'");
        };
    }

    private Object changed(Arguments arguments) {
        boolean changed = !Objects.equals(lastChanged, arguments.positional());
        lastChanged = arguments.positional();
        return changed;
    }
}
