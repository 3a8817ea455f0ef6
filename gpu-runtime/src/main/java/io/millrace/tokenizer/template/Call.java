package io.millrace.tokenizer.template;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A call expression, kept apart from others because a {% call %} block hands its body to one. */
record Call(Expression callee, Inputs inputs) implements Expression {
    /** The arguments before they are evaluated. */
    record Inputs(List<Expression> positional, Map<String, Expression> named) {
        Arguments evaluate(Scope scope) {
            List<Object> values = new ArrayList<>(positional.size());
            positional.forEach(argument -> values.add(argument.evaluate(scope)));
            Map<String, Object> byName = new LinkedHashMap<>();
            named.forEach((name, argument) -> byName.put(name, argument.evaluate(scope)));
            return new Arguments(values, byName);
        }
    }

    @Override
    public Object evaluate(Scope scope) {
        return apply(callee.evaluate(scope), inputs.evaluate(scope));
    }

    /** Calls a value. Throws TemplateException when it cannot be called. */
    static Object apply(Object callee, Arguments arguments) {
        if (callee instanceof Callable) {
            return ((Callable) callee).call(arguments);
        } else if (callee instanceof Undefined) {
            throw ((Undefined) callee).fault();
        }
        throw new TemplateException("'" + Values.typeName(callee) + "' object is not callable");
    }
}
