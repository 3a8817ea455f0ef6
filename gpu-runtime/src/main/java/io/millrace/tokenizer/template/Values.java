package io.millrace.tokenizer.template;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The values of a template and what Python lets one do with each. A string is a {@link MarkedText}, an int a Long, a
 * float a Double, True and False a Boolean, None null, a list or tuple a List, a dict a Map with such keys; besides
 * these there are {@link Undefined}, {@link Namespace}, {@link Loop} and {@link Callable}.
 */
final class Values {
    private Values() {}

    static boolean isTrue(Object value) {
        if (value == null || value instanceof Undefined) {
            return false;
        } else if (value instanceof Boolean) {
            return (Boolean) value;
        } else if (value instanceof MarkedText) {
            return !((MarkedText) value).isEmpty();
        } else if (value instanceof Number) {
            return ((Number) value).doubleValue() != 0;
        } else if (value instanceof Collection) {
            return !((Collection<?>) value).isEmpty();
        }
        return !(value instanceof Map) || !((Map<?, ?>) value).isEmpty();
    }

    /** What "{{ value }}" and str(value) show. */
    static MarkedText text(Object value) {
        if (value instanceof MarkedText) {
            return (MarkedText) value;
        }
        return value instanceof Undefined ? MarkedText.EMPTY : representation(value);
    }

    /** repr(value). */
    static MarkedText representation(Object value) {
        if (value instanceof MarkedText) {
            return PythonText.quote((MarkedText) value);
        } else if (value instanceof List) {
            return bracketed("[", (List<?>) value, "]");
        } else if (value instanceof Map) {
            MarkedText.Builder out = new MarkedText.Builder().append(MarkedText.template("{"));
            String separator = "";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(MarkedText.template(separator)).append(representation(entry.getKey()));
                out.append(MarkedText.template(": ")).append(representation(entry.getValue()));
                separator = ", ";
            }
            return out.append(MarkedText.template("}")).build();
        }
        return MarkedText.template(scalar(value));
    }

    private static MarkedText bracketed(String open, List<?> items, String close) {
        MarkedText.Builder out = new MarkedText.Builder().append(MarkedText.template(open));
        String separator = "";
        for (Object item : items) {
            out.append(MarkedText.template(separator)).append(representation(item));
            separator = ", ";
        }
        return out.append(MarkedText.template(close)).build();
    }

    private static String scalar(Object value) {
        if (value == null) {
            return "None";
        } else if (value instanceof Boolean) {
            return (Boolean) value ? "True" : "False";
        } else if (value instanceof Double) {
            return PythonText.of((Double) value);
        }
        return value instanceof Long || value instanceof Undefined ? value.toString() : "<" + typeName(value) + ">";
    }

    static String typeName(Object value) {
        if (value == null) {
            return "None";
        } else if (value instanceof Boolean) {
            return "bool";
        } else if (value instanceof MarkedText) {
            return "str";
        } else if (value instanceof Long) {
            return "int";
        } else if (value instanceof Double) {
            return "float";
        } else if (value instanceof List) {
            return "list";
        } else if (value instanceof Map) {
            return "dict";
        }
        return value.getClass().getSimpleName().toLowerCase(java.util.Locale.ROOT);
    }

    /** value.name */
    static Object attribute(Object value, String name) {
        if (value instanceof Undefined) {
            throw ((Undefined) value).fault();
        } else if (value instanceof Namespace) {
            Map<String, Object> attributes = ((Namespace) value).attributes();
            return attributes.containsKey(name) ? attributes.get(name) : absent(value, name);
        } else if (value instanceof Loop) {
            return ((Loop) value).attribute(name);
        } else if (value instanceof MarkedText) {
            Callable method = StringMethods.bind((MarkedText) value, name);
            return method != null ? method : absent(value, name);
        } else if (value instanceof Map) {
            Callable method = CollectionMethods.bind((Map<?, ?>) value, name);
            return method != null ? method : item(value, MarkedText.template(name));
        } else if (value instanceof List) {
            Callable method = CollectionMethods.bind((List<?>) value, name);
            return method != null ? method : absent(value, name);
        }
        return absent(value, name);
    }

    /** value[key] */
    static Object item(Object value, Object key) {
        if (value instanceof Undefined) {
            throw ((Undefined) value).fault();
        } else if (value instanceof Map) {
            Map<?, ?> map = (Map<?, ?>) value;
            return map.containsKey(key) ? map.get(key) : absent(value, String.valueOf(key));
        } else if (key instanceof Long && value instanceof List) {
            List<?> list = (List<?>) value;
            long index = (Long) key < 0 ? (Long) key + list.size() : (Long) key;
            return index >= 0 && index < list.size() ? list.get((int) index) : absent(value, key.toString());
        } else if (key instanceof Long && value instanceof MarkedText) {
            List<Object> characters = characters((MarkedText) value);
            long index = (Long) key < 0 ? (Long) key + characters.size() : (Long) key;
            return index >= 0 && index < characters.size()
                    ? characters.get((int) index)
                    : absent(value, key.toString());
        }
        return key instanceof MarkedText ? attribute(value, key.toString()) : absent(value, String.valueOf(key));
    }

    private static Undefined absent(Object value, String name) {
        return new Undefined("'" + typeName(value) + " object' has no attribute '" + name + "'");
    }

    /** value[start:stop:step]; each bound may be null. */
    static Object slice(Object value, Object start, Object stop, Object step) {
        List<Object> items = value instanceof MarkedText ? characters((MarkedText) value) : requireList(value, "slice");
        int size = items.size();
        int stride = step == null ? 1 : Math.toIntExact(requireInteger(step, "slice step"));
        if (stride == 0) {
            throw new TemplateException("slice step cannot be zero");
        }
        int from = bound(start, stride > 0 ? 0 : size - 1, size, stride);
        int to = bound(stop, stride > 0 ? size : -1, size, stride);
        List<Object> kept = new ArrayList<>();
        for (int i = from; stride > 0 ? i < to : i > to; i += stride) {
            kept.add(items.get(i));
        }
        return value instanceof MarkedText ? concatenate(kept) : kept;
    }

    private static int bound(Object given, int fallback, int size, int stride) {
        if (given == null) {
            return fallback;
        }
        long index = requireInteger(given, "slice bound");
        index = index < 0 ? index + size : index;
        return (int) Math.max(stride > 0 ? 0 : -1, Math.min(stride > 0 ? size : size - 1, index));
    }

    static MarkedText concatenate(Iterable<?> pieces) {
        MarkedText.Builder out = new MarkedText.Builder();
        for (Object piece : pieces) {
            out.append(text(piece));
        }
        return out.build();
    }

    /** The characters (code points) of a string, each a string. */
    static List<Object> characters(MarkedText text) {
        List<Object> characters = new ArrayList<>(text.length());
        String chars = text.toString();
        for (int i = 0; i < chars.length(); ) {
            int next = i + Character.charCount(chars.codePointAt(i));
            characters.add(text.substring(i, next));
            i = next;
        }
        return characters;
    }

    /** What a for loop runs over: items of a list, keys of a dict, characters of a string. */
    static List<Object> iterate(Object value) {
        if (value instanceof List) {
            return new ArrayList<>((List<?>) value);
        } else if (value instanceof Map) {
            return new ArrayList<>(((Map<?, ?>) value).keySet());
        } else if (value instanceof MarkedText) {
            return characters((MarkedText) value);
        } else if (value instanceof Undefined) {
            return List.of();
        }
        throw new TemplateException("'" + typeName(value) + "' object is not iterable");
    }

    static long length(Object value) {
        if (value instanceof MarkedText) {
            String chars = value.toString();
            return chars.codePointCount(0, chars.length());
        } else if (value instanceof Collection) {
            return ((Collection<?>) value).size();
        } else if (value instanceof Map) {
            return ((Map<?, ?>) value).size();
        } else if (value instanceof Undefined) {
            return 0;
        }
        throw new TemplateException("object of type '" + typeName(value) + "' has no length");
    }

    static boolean areEqual(Object left, Object right) {
        Object a = left instanceof Boolean ? (Object) ((Boolean) left ? 1L : 0L) : left;
        Object b = right instanceof Boolean ? (Object) ((Boolean) right ? 1L : 0L) : right;
        if (a instanceof Number && b instanceof Number) {
            return a instanceof Long && b instanceof Long
                    ? a.equals(b)
                    : ((Number) a).doubleValue() == ((Number) b).doubleValue();
        } else if (a instanceof List && b instanceof List) {
            List<?> x = (List<?>) a;
            List<?> y = (List<?>) b;
            boolean equal = x.size() == y.size();
            for (int i = 0; equal && i < x.size(); i++) {
                equal = areEqual(x.get(i), y.get(i));
            }
            return equal;
        } else if (a instanceof Undefined && b instanceof Undefined) {
            return true;
        }
        return Objects.equals(a, b);
    }

    static int compare(Object left, Object right) {
        if (left instanceof MarkedText && right instanceof MarkedText) {
            int[] a = left.toString().codePoints().toArray();
            int[] b = right.toString().codePoints().toArray();
            return java.util.Arrays.compare(a, b);
        } else if (isNumber(left) && isNumber(right)) {
            return Double.compare(number(left), number(right));
        } else if (left instanceof List && right instanceof List) {
            List<?> a = (List<?>) left;
            List<?> b = (List<?>) right;
            for (int i = 0; i < Math.min(a.size(), b.size()); i++) {
                if (!areEqual(a.get(i), b.get(i))) {
                    return compare(a.get(i), b.get(i));
                }
            }
            return Integer.compare(a.size(), b.size());
        } else if (left instanceof Undefined || right instanceof Undefined) {
            throw (left instanceof Undefined ? (Undefined) left : (Undefined) right).fault();
        }
        throw new TemplateException("cannot order '" + typeName(left) + "' and '" + typeName(right) + "'");
    }

    /** item in container */
    static boolean contains(Object container, Object item) {
        if (container instanceof MarkedText) {
            return container
                    .toString()
                    .contains(requireText(item, "left side of in").toString());
        } else if (container instanceof Map) {
            return ((Map<?, ?>) container).containsKey(item);
        }
        for (Object candidate : iterate(container)) {
            if (areEqual(candidate, item)) {
                return true;
            }
        }
        return false;
    }

    static boolean isNumber(Object value) {
        return value instanceof Number || value instanceof Boolean;
    }

    static double number(Object value) {
        if (value instanceof Boolean) {
            return (Boolean) value ? 1 : 0;
        } else if (value instanceof Number) {
            return ((Number) value).doubleValue();
        }
        throw wrongType(value, "a number", "operand");
    }

    static MarkedText requireText(Object value, String what) {
        if (value instanceof MarkedText) {
            return (MarkedText) value;
        }
        throw wrongType(value, "a string", what);
    }

    static long requireInteger(Object value, String what) {
        if (value instanceof Long) {
            return (Long) value;
        } else if (value instanceof Boolean) {
            return (Boolean) value ? 1 : 0;
        }
        throw wrongType(value, "an integer", what);
    }

    static Map<?, ?> requireMap(Object value, String what) {
        if (value instanceof Map) {
            return (Map<?, ?>) value;
        }
        throw wrongType(value, "a dict", what);
    }

    static List<Object> requireList(Object value, String what) {
        if (value instanceof List) {
            return new ArrayList<>((List<?>) value);
        }
        throw wrongType(value, "a list", what);
    }

    private static TemplateException wrongType(Object value, String wanted, String what) {
        return value instanceof Undefined
                ? ((Undefined) value).fault()
                : new TemplateException(what + " must be " + wanted + ", not " + typeName(value));
    }
}
