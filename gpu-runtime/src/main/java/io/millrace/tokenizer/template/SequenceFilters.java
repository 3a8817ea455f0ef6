package io.millrace.tokenizer.template;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;

/** Jinja's filters on sequences. */
final class SequenceFilters {
    private SequenceFilters() {}

    /** Throws TemplateException for a filter that does not exist here. */
    static Object apply(String name, Object value, Arguments a) {
        return switch (name) {
            case "list" -> Values.iterate(value);
            case "items" ->
                value instanceof Undefined ? List.of() : CollectionMethods.pairs(Values.requireMap(value, "items"));
            case "first", "last" -> end(value, name);
            case "join" -> join(value, a);
            case "reverse" ->
                value instanceof MarkedText ? Values.concatenate(Filters.reversed(value)) : Filters.reversed(value);
            case "map" -> map(value, a);
            case "select" -> keep(value, item -> isSelected(item, a, 0));
            case "reject" -> keep(value, item -> !isSelected(item, a, 0));
            case "selectattr" -> keep(value, item -> isSelected(path(a.required(0, "attribute"), item), a, 1));
            case "rejectattr" -> keep(value, item -> !isSelected(path(a.required(0, "attribute"), item), a, 1));
            case "sort" -> sort(value, a);
            case "dictsort" -> dictsort(value, a);
            case "unique" -> unique(value, a);
            case "min" ->
                Values.iterate(value).stream()
                        .min(Filters.order(a.flag(0, "case_sensitive")))
                        .orElse(new Undefined("No aggregated item, sequence was empty."));
            case "max" ->
                Values.iterate(value).stream()
                        .max(Filters.order(a.flag(0, "case_sensitive")))
                        .orElse(new Undefined("No aggregated item, sequence was empty."));
            case "sum" -> sum(value, a);
            case "batch" -> batch(value, a);
            default -> throw new TemplateException("no filter named '" + name + "'");
        };
    }

    private static Object end(Object value, String which) {
        List<Object> items = Values.iterate(value);
        if (items.isEmpty()) {
            return new Undefined("No " + which + " item, sequence was empty.");
        }
        return items.get(which.equals("first") ? 0 : items.size() - 1);
    }

    private static MarkedText join(Object value, Arguments a) {
        Object attribute = a.get(1, "attribute", null);
        List<Object> texts = new ArrayList<>();
        for (Object item : Values.iterate(value)) {
            texts.add(Values.text(attribute == null ? item : path(attribute, item)));
        }
        return StringMethods.join(Values.text(a.get(0, "d", MarkedText.EMPTY)), texts);
    }

    private static List<Object> map(Object value, Arguments a) {
        UnaryOperator<Object> function;
        if (a.named().containsKey("attribute")) {
            Object attribute = a.named().get("attribute");
            Object fallback = a.named().get("default");
            function = item -> {
                Object found = path(attribute, item);
                return found instanceof Undefined && fallback != null ? fallback : found;
            };
        } else {
            String filter = a.text(0, "filter").toString();
            function = item -> Filters.apply(filter, item, a.from(1));
        }
        List<Object> mapped = new ArrayList<>();
        for (Object item : Values.iterate(value)) {
            mapped.add(function.apply(item));
        }
        return mapped;
    }

    private static List<Object> keep(Object value, Predicate<Object> wanted) {
        List<Object> kept = new ArrayList<>();
        for (Object item : Values.iterate(value)) {
            if (wanted.test(item)) {
                kept.add(item);
            }
        }
        return kept;
    }

    private static boolean isSelected(Object item, Arguments a, int testIndex) {
        if (a.positional().size() <= testIndex) {
            return Values.isTrue(item);
        }
        return Predicates.test(a.text(testIndex, "test").toString(), item, a.from(testIndex + 1));
    }

    /** An attribute by name, by index, or by a dotted path of both. */
    private static Object path(Object attribute, Object item) {
        if (attribute instanceof Long) {
            return Values.item(item, attribute);
        }
        Object found = item;
        for (String step : Values.requireText(attribute, "attribute").toString().split("\\.")) {
            found = step.matches("\\d+")
                    ? Values.item(found, Long.parseLong(step))
                    : Values.item(found, MarkedText.template(step));
        }
        return found;
    }

    private static List<Object> sort(Object value, Arguments a) {
        Object attribute = a.get(2, "attribute", null);
        boolean caseSensitive = a.flag(1, "case_sensitive");
        List<Object> items = new ArrayList<>(Values.iterate(value));
        java.util.Comparator<Object> order = (left, right) -> Filters.order(caseSensitive)
                .compare(
                        attribute == null ? left : path(attribute, left),
                        attribute == null ? right : path(attribute, right));
        items.sort(a.flag(0, "reverse") ? order.reversed() : order);
        return items;
    }

    private static List<Object> dictsort(Object value, Arguments a) {
        long by = Values.text(a.get(1, "by", MarkedText.template("key")))
                        .toString()
                        .equals("value")
                ? 1
                : 0;
        List<Object> pairs = CollectionMethods.pairs(Values.requireMap(value, "dictsort"));
        java.util.Comparator<Object> order = (left, right) ->
                Filters.order(a.flag(0, "case_sensitive")).compare(Values.item(left, by), Values.item(right, by));
        pairs.sort(a.flag(2, "reverse") ? order.reversed() : order);
        return pairs;
    }

    private static List<Object> unique(Object value, Arguments a) {
        Object attribute = a.get(1, "attribute", null);
        Set<Object> seen = new HashSet<>();
        return keep(
                value,
                item -> seen.add(Filters.comparable(
                        attribute == null ? item : path(attribute, item), a.flag(0, "case_sensitive"))));
    }

    private static Object sum(Object value, Arguments a) {
        Object attribute = a.get(0, "attribute", null);
        Object total = a.get(1, "start", 0L);
        for (Object item : Values.iterate(value)) {
            total = Operators.binary("+", total, attribute == null ? item : path(attribute, item));
        }
        return total;
    }

    private static List<Object> batch(Object value, Arguments a) {
        int size = a.count(0, "linecount", 1);
        Object fill = a.get(1, "fill_with", null);
        List<Object> batches = new ArrayList<>();
        List<Object> batch = new ArrayList<>();
        for (Object item : Values.iterate(value)) {
            batch.add(item);
            if (batch.size() == size) {
                batches.add(batch);
                batch = new ArrayList<>();
            }
        }
        while (!batch.isEmpty() && fill != null && batch.size() < size) {
            batch.add(fill);
        }
        if (!batch.isEmpty()) {
            batches.add(batch);
        }
        return batches;
    }
}
