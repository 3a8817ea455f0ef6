package io.millrace.tokenizer.template;

import io.millrace.tokenizer.template.Lexer.Kind;
import io.millrace.tokenizer.template.Lexer.Token;
import io.millrace.tokenizer.template.Statement.Flow;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.BiConsumer;

/** Parses a template's tokens into one statement. */
final class StatementParser extends ExpressionParser {
    /** Where a value is stored: a name, a tuple of names, an attribute of a namespace. */
    private interface Target extends BiConsumer<Scope, Object> {}

    private record Parameter(String name, Expression fallback) {}

    private static final Statement NOTHING = (scope, out) -> Flow.NEXT;

    StatementParser(List<Token> tokens) {
        super(tokens);
    }

    Statement template() {
        Statement body = body(Set.of());
        expect(Kind.END);
        return body;
    }

    /** Statements up to a tag that starts with one of the names; that tag's name is the next token. */
    private Statement body(Set<String> endNames) {
        List<Statement> statements = new ArrayList<>();
        while (peek().kind() != Kind.END) {
            Token token = next();
            if (token.kind() == Kind.TEXT) {
                MarkedText text = MarkedText.template(token.text());
                statements.add((scope, out) -> rendered(out.append(text)));
            } else if (token.kind() == Kind.OUTPUT_BEGIN) {
                Expression value = tuple();
                expect(Kind.OUTPUT_END);
                statements.add(located(
                        token.line(), (scope, out) -> rendered(out.append(Values.text(value.evaluate(scope))))));
            } else if (endNames.contains(peek().text())) {
                return sequence(statements);
            } else {
                statements.add(located(token.line(), statement(expect(Kind.NAME))));
            }
        }
        if (!endNames.isEmpty()) {
            throw new TemplateException("missing {% " + String.join(" or ", endNames) + " %}", peek().line(), null);
        }
        return sequence(statements);
    }

    /** The flow after something was appended. */
    private static Flow rendered(MarkedText.Builder out) {
        return Flow.NEXT;
    }

    private static Statement sequence(List<Statement> statements) {
        Statement[] steps = statements.toArray(new Statement[0]);
        return (scope, out) -> {
            for (Statement step : steps) {
                Flow flow = step.execute(scope, out);
                if (flow != Flow.NEXT) {
                    return flow;
                }
            }
            return Flow.NEXT;
        };
    }

    /** Gives errors their line: the innermost statement's. */
    private static Statement located(int line, Statement statement) {
        return (scope, out) -> {
            try {
                return statement.execute(scope, out);
            } catch (TemplateException e) {
                throw e.line() > 0 ? e : new TemplateException(e.getMessage(), line, e);
            } catch (ArithmeticException e) {
                throw new TemplateException(e.getMessage(), line, e);
            }
        };
    }

    private Statement statement(Token tag) {
        return switch (tag.text()) {
            case "if" -> ifStatement();
            case "for" -> forStatement();
            case "set" -> setStatement();
            case "macro" -> macroStatement();
            case "call" -> callStatement();
            case "filter" -> filterStatement();
            case "with" -> withStatement();
            case "generation" -> {
                expect(Kind.BLOCK_END);
                yield closedBody("endgeneration");
            }
            case "break" -> loopControl(Flow.BREAK);
            case "continue" -> loopControl(Flow.CONTINUE);
            default -> throw new TemplateException("unknown or unsupported tag '" + tag.text() + "'", tag.line(), null);
        };
    }

    private Statement loopControl(Flow flow) {
        expect(Kind.BLOCK_END);
        return (scope, out) -> flow;
    }

    private Statement closedBody(String endName) {
        Statement body = body(Set.of(endName));
        next();
        expect(Kind.BLOCK_END);
        return body;
    }

    private Statement ifStatement() {
        Expression condition = tuple();
        expect(Kind.BLOCK_END);
        Statement then = body(Set.of("elif", "else", "endif"));
        String end = next().text();
        Statement otherwise = NOTHING;
        if (end.equals("elif")) {
            otherwise = ifStatement();
        } else {
            expect(Kind.BLOCK_END);
            otherwise = end.equals("else") ? closedBody("endif") : NOTHING;
        }
        Statement last = otherwise;
        return (scope, out) -> (Values.isTrue(condition.evaluate(scope)) ? then : last).execute(scope, out);
    }

    private Statement forStatement() {
        Target target = target();
        if (!skipName("in")) {
            throw new TemplateException("expected 'in' in for", peek().line(), null);
        }
        Expression items = forItems();
        Expression filter = skipName("if") ? expression() : scope -> true;
        if (isName("recursive")) {
            throw new TemplateException("recursive loops are not supported", peek().line(), null);
        }
        expect(Kind.BLOCK_END);
        Statement body = body(Set.of("else", "endfor"));
        boolean hasElse = next().text().equals("else");
        expect(Kind.BLOCK_END);
        Statement otherwise = hasElse ? closedBody("endfor") : NOTHING;
        return (scope, out) -> {
            List<Object> kept = new ArrayList<>();
            for (Object item : Values.iterate(items.evaluate(scope))) {
                Scope inner = new Scope(scope);
                target.accept(inner, item);
                if (Values.isTrue(filter.evaluate(inner))) {
                    kept.add(item);
                }
            }
            return kept.isEmpty() ? otherwise.execute(new Scope(scope), out) : loop(kept, target, body, scope, out);
        };
    }

    /** The "if" after a loop's items filters them, so it is no inline condition. */
    private Expression forItems() {
        Expression first = or();
        if (!isOperator(",")) {
            return first;
        }
        List<Expression> items = new ArrayList<>(List.of(first));
        while (skipOperator(",")) {
            items.add(or());
        }
        return scope -> {
            List<Object> values = new ArrayList<>();
            items.forEach(item -> values.add(item.evaluate(scope)));
            return values;
        };
    }

    private static Flow loop(List<Object> items, Target target, Statement body, Scope scope, MarkedText.Builder out) {
        Loop loop = new Loop(items);
        for (int i = 0; i < items.size(); i++) {
            loop.moveTo(i);
            Scope inner = new Scope(scope);
            inner.set("loop", loop);
            target.accept(inner, items.get(i));
            if (body.execute(inner, out) == Flow.BREAK) {
                break;
            }
        }
        return Flow.NEXT;
    }

    private Target target() {
        boolean parenthesised = skipOperator("(");
        List<Target> targets = new ArrayList<>();
        targets.add(singleTarget());
        boolean tuple = isOperator(",");
        while (skipOperator(",")) {
            if (peek().kind() == Kind.NAME) {
                targets.add(singleTarget());
            }
        }
        if (parenthesised) {
            expectOperator(")");
        }
        return tuple ? (scope, value) -> unpack(targets, scope, value) : targets.get(0);
    }

    private static void unpack(List<Target> targets, Scope scope, Object value) {
        List<Object> items = Values.iterate(value);
        if (items.size() != targets.size()) {
            throw new TemplateException("cannot unpack " + items.size() + " values into " + targets.size());
        }
        for (int i = 0; i < items.size(); i++) {
            targets.get(i).accept(scope, items.get(i));
        }
    }

    private Target singleTarget() {
        String name = expect(Kind.NAME).text();
        if (!skipOperator(".")) {
            return (scope, value) -> scope.set(name, value);
        }
        String attribute = expect(Kind.NAME).text();
        return (scope, value) -> {
            Object holder = scope.get(name);
            if (!(holder instanceof Namespace)) {
                throw new TemplateException("cannot assign attribute on non-namespace object '" + name + "'");
            }
            ((Namespace) holder).attributes().put(attribute, value);
        };
    }

    private Statement setStatement() {
        Target target = target();
        if (skipOperator("=")) {
            Expression value = tuple();
            expect(Kind.BLOCK_END);
            return (scope, out) -> {
                target.accept(scope, value.evaluate(scope));
                return Flow.NEXT;
            };
        }
        Statement[] body = new Statement[1];
        Expression rendered = scope -> capture(body[0], new Scope(scope));
        Expression filtered = filtersAndTests(rendered);
        expect(Kind.BLOCK_END);
        body[0] = closedBody("endset");
        return (scope, out) -> {
            target.accept(scope, filtered.evaluate(scope));
            return Flow.NEXT;
        };
    }

    private static MarkedText capture(Statement body, Scope scope) {
        MarkedText.Builder captured = new MarkedText.Builder();
        body.execute(scope, captured);
        return captured.build();
    }

    private Statement macroStatement() {
        String name = expect(Kind.NAME).text();
        List<Parameter> parameters = parameters();
        expect(Kind.BLOCK_END);
        Statement body = closedBody("endmacro");
        return (scope, out) -> {
            scope.set(name, macro(name, parameters, body, scope));
            return Flow.NEXT;
        };
    }

    private List<Parameter> parameters() {
        List<Parameter> parameters = new ArrayList<>();
        expectOperator("(");
        while (!skipOperator(")")) {
            String name = expect(Kind.NAME).text();
            parameters.add(new Parameter(name, skipOperator("=") ? expression() : null));
            if (!isOperator(")")) {
                expectOperator(",");
            }
        }
        return parameters;
    }

    private static Callable macro(String name, List<Parameter> parameters, Statement body, Scope definedIn) {
        return arguments -> {
            Scope scope = new Scope(definedIn);
            for (int i = 0; i < parameters.size(); i++) {
                Parameter parameter = parameters.get(i);
                Object value = arguments.has(i, parameter.name())
                        ? arguments.get(i, parameter.name(), null)
                        : parameter.fallback() != null
                                ? parameter.fallback().evaluate(scope)
                                : new Undefined("parameter '" + parameter.name() + "' was not provided");
                scope.set(parameter.name(), value);
            }
            int numExtra = arguments.positional().size() - parameters.size();
            scope.set(
                    "varargs", numExtra > 0 ? arguments.from(parameters.size()).positional() : List.of());
            if (arguments.named().containsKey("caller")) {
                scope.set("caller", arguments.named().get("caller"));
            }
            return capture(body, scope);
        };
    }

    private Statement callStatement() {
        List<Parameter> parameters = isOperator("(") ? parameters() : List.of();
        Token start = peek();
        Expression called = unary(false);
        if (!(called instanceof Call)) {
            throw new TemplateException("expected a call in {% call %}", start.line(), null);
        }
        expect(Kind.BLOCK_END);
        Statement body = closedBody("endcall");
        Call call = (Call) called;
        return (scope, out) -> {
            Arguments arguments = call.inputs().evaluate(scope);
            arguments.named().put("caller", macro("caller", parameters, body, scope));
            out.append(Values.text(Call.apply(call.callee().evaluate(scope), arguments)));
            return Flow.NEXT;
        };
    }

    private Statement filterStatement() {
        Statement[] body = new Statement[1];
        Expression filtered = filtersAndTests(filter(scope -> capture(body[0], new Scope(scope))));
        expect(Kind.BLOCK_END);
        body[0] = closedBody("endfilter");
        return (scope, out) -> rendered(out.append(Values.text(filtered.evaluate(scope))));
    }

    private Statement withStatement() {
        List<Target> targets = new ArrayList<>();
        List<Expression> values = new ArrayList<>();
        while (peek().kind() != Kind.BLOCK_END) {
            targets.add(singleTarget());
            expectOperator("=");
            values.add(expression());
            skipOperator(",");
        }
        expect(Kind.BLOCK_END);
        Statement body = closedBody("endwith");
        return (scope, out) -> {
            Scope inner = new Scope(scope);
            for (int i = 0; i < targets.size(); i++) {
                targets.get(i).accept(inner, values.get(i).evaluate(scope));
            }
            return body.execute(inner, out);
        };
    }
}
