package io.millrace.tokenizer.template;

import io.millrace.tokenizer.template.Lexer.Kind;
import io.millrace.tokenizer.template.Lexer.Token;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Parses Jinja expressions by recursive descent, with Jinja's precedence, over a list of tokens it moves through. */
class ExpressionParser {
    private static final Call.Inputs NO_ARGUMENTS = new Call.Inputs(List.of(), Map.of());
    private static final Set<String> COMPARISONS = Set.of("==", "!=", "<", "<=", ">", ">=");
    private static final Set<String> WORD_OPERATORS = Set.of("and", "or", "not", "in", "is", "if", "else");

    private final List<Token> tokens;
    private int at;

    ExpressionParser(List<Token> tokens) {
        this.tokens = tokens;
    }

    final Token peek() {
        return tokens.get(at);
    }

    final Token next() {
        return tokens.get(at++);
    }

    final boolean isOperator(String text) {
        return peek().is(Kind.OPERATOR, text);
    }

    final boolean isName(String text) {
        return peek().is(Kind.NAME, text);
    }

    final boolean skipOperator(String text) {
        return isOperator(text) && next() != null;
    }

    final boolean skipName(String text) {
        return isName(text) && next() != null;
    }

    final Token expect(Kind kind) {
        Token token = next();
        if (token.kind() != kind) {
            throw new TemplateException("expected " + kind + ", found '" + token.text() + "'", token.line(), null);
        }
        return token;
    }

    final void expectOperator(String text) {
        if (!skipOperator(text)) {
            throw new TemplateException("expected '" + text + "', found '" + peek().text() + "'", peek().line(), null);
        }
    }

    /** One expression, or several separated by commas, which make a list. */
    final Expression tuple() {
        Expression first = expression();
        if (!isOperator(",")) {
            return first;
        }
        List<Expression> items = new ArrayList<>(List.of(first));
        while (skipOperator(",")) {
            boolean ended = peek().kind() == Kind.BLOCK_END || peek().kind() == Kind.OUTPUT_END || isOperator(")");
            if (ended) {
                break;
            }
            items.add(expression());
        }
        return list(items);
    }

    private static Expression list(List<Expression> items) {
        return scope -> {
            List<Object> values = new ArrayList<>(items.size());
            items.forEach(item -> values.add(item.evaluate(scope)));
            return values;
        };
    }

    final Expression expression() {
        Expression value = or();
        while (skipName("if")) {
            Expression then = value;
            Expression condition = or();
            Expression otherwise = skipName("else")
                    ? expression()
                    : scope -> new Undefined("the inline if-expression was false and has no else");
            value = scope ->
                    Values.isTrue(condition.evaluate(scope)) ? then.evaluate(scope) : otherwise.evaluate(scope);
        }
        return value;
    }

    final Expression or() {
        Expression value = and();
        while (skipName("or")) {
            Expression left = value;
            Expression right = and();
            value = scope -> {
                Object first = left.evaluate(scope);
                return Values.isTrue(first) ? first : right.evaluate(scope);
            };
        }
        return value;
    }

    private Expression and() {
        Expression value = not();
        while (skipName("and")) {
            Expression left = value;
            Expression right = not();
            value = scope -> {
                Object first = left.evaluate(scope);
                return Values.isTrue(first) ? right.evaluate(scope) : first;
            };
        }
        return value;
    }

    private Expression not() {
        if (skipName("not")) {
            Expression negated = not();
            return scope -> !Values.isTrue(negated.evaluate(scope));
        }
        return comparison();
    }

    /** "a < b < c" compares neighbours, each evaluated once. */
    private Expression comparison() {
        Expression first = sum();
        List<String> operators = new ArrayList<>();
        List<Expression> operands = new ArrayList<>();
        while (true) {
            String operator = comparisonOperator();
            if (operator == null) {
                break;
            }
            operators.add(operator);
            operands.add(sum());
        }
        if (operators.isEmpty()) {
            return first;
        }
        return scope -> {
            Object left = first.evaluate(scope);
            for (int i = 0; i < operators.size(); i++) {
                Object right = operands.get(i).evaluate(scope);
                if (!compare(operators.get(i), left, right)) {
                    return false;
                }
                left = right;
            }
            return true;
        };
    }

    private String comparisonOperator() {
        Token token = peek();
        if (token.kind() == Kind.OPERATOR && COMPARISONS.contains(token.text())) {
            return next().text();
        } else if (skipName("in")) {
            return "in";
        } else if (isName("not") && tokens.get(at + 1).is(Kind.NAME, "in")) {
            at += 2;
            return "not in";
        }
        return null;
    }

    private static boolean compare(String operator, Object left, Object right) {
        return switch (operator) {
            case "in" -> Values.contains(right, left);
            case "not in" -> !Values.contains(right, left);
            default ->
                Predicates.test(operator, left, new Arguments(java.util.Collections.singletonList(right), Map.of()));
        };
    }

    private Expression sum() {
        Expression value = concatenation();
        while (isOperator("+") || isOperator("-")) {
            value = binary(next().text(), value, concatenation());
        }
        return value;
    }

    private Expression concatenation() {
        Expression first = product();
        if (!isOperator("~")) {
            return first;
        }
        List<Expression> parts = new ArrayList<>(List.of(first));
        while (skipOperator("~")) {
            parts.add(product());
        }
        Expression list = list(parts);
        return scope -> Values.concatenate((List<?>) list.evaluate(scope));
    }

    private Expression product() {
        Expression value = power();
        while (isOperator("*") || isOperator("/") || isOperator("//") || isOperator("%")) {
            value = binary(next().text(), value, power());
        }
        return value;
    }

    private Expression power() {
        Expression value = unary(true);
        while (skipOperator("**")) {
            value = binary("**", value, unary(true));
        }
        return value;
    }

    private static Expression binary(String operator, Expression left, Expression right) {
        return scope -> Operators.binary(operator, left.evaluate(scope), right.evaluate(scope));
    }

    final Expression unary(boolean withFilters) {
        Expression value;
        if (skipOperator("-")) {
            Expression negated = unary(false);
            value = scope -> Operators.negate(negated.evaluate(scope));
        } else if (skipOperator("+")) {
            value = unary(false);
        } else {
            value = primary();
        }
        value = postfix(value);
        return withFilters ? filtersAndTests(value) : value;
    }

    private Expression primary() {
        Token token = next();
        switch (token.kind()) {
            case NAME:
                return name(token);
            case STRING:
                StringBuilder text = new StringBuilder(token.text());
                while (peek().kind() == Kind.STRING) {
                    text.append(next().text());
                }
                return constant(MarkedText.template(text.toString()));
            case INTEGER:
                return constant(Long.decode(token.text().matches("0\\d+") ? "0" : token.text()));
            case FLOAT:
                return constant(Double.parseDouble(token.text()));
            default:
                if (token.is(Kind.OPERATOR, "(")) {
                    return parenthesised();
                } else if (token.is(Kind.OPERATOR, "[")) {
                    return list(items("]"));
                } else if (token.is(Kind.OPERATOR, "{")) {
                    return dict();
                }
                throw new TemplateException("unexpected '" + token.text() + "'", token.line(), null);
        }
    }

    private static Expression constant(Object value) {
        return scope -> value;
    }

    private static Expression name(Token token) {
        String name = token.text();
        return switch (name) {
            case "true", "True" -> constant(true);
            case "false", "False" -> constant(false);
            case "none", "None" -> constant(null);
            default -> scope -> scope.get(name);
        };
    }

    private Expression parenthesised() {
        if (skipOperator(")")) {
            return list(List.of());
        }
        Expression inner = tuple();
        expectOperator(")");
        return inner;
    }

    private List<Expression> items(String close) {
        List<Expression> items = new ArrayList<>();
        while (!skipOperator(close)) {
            items.add(expression());
            if (!isOperator(close)) {
                expectOperator(",");
            }
        }
        return items;
    }

    private Expression dict() {
        List<Expression> keys = new ArrayList<>();
        List<Expression> values = new ArrayList<>();
        while (!skipOperator("}")) {
            keys.add(expression());
            expectOperator(":");
            values.add(expression());
            if (!isOperator("}")) {
                expectOperator(",");
            }
        }
        return scope -> {
            Map<Object, Object> map = new LinkedHashMap<>();
            for (int i = 0; i < keys.size(); i++) {
                map.put(keys.get(i).evaluate(scope), values.get(i).evaluate(scope));
            }
            return map;
        };
    }

    final Expression postfix(Expression start) {
        Expression value = start;
        while (true) {
            Expression object = value;
            if (skipOperator(".")) {
                Token name = next();
                if (name.kind() != Kind.NAME && name.kind() != Kind.INTEGER) {
                    throw new TemplateException("expected a name after '.'", name.line(), null);
                }
                value = name.kind() == Kind.NAME
                        ? scope -> Values.attribute(object.evaluate(scope), name.text())
                        : scope -> Values.item(object.evaluate(scope), Long.parseLong(name.text()));
            } else if (skipOperator("[")) {
                value = subscript(object);
            } else if (isOperator("(")) {
                value = new Call(object, callArguments());
            } else {
                return value;
            }
        }
    }

    private Expression subscript(Expression object) {
        Expression[] bounds = new Expression[3];
        int numColons = 0;
        while (!skipOperator("]")) {
            if (skipOperator(":")) {
                numColons++;
            } else if (numColons < 3 && bounds[numColons] == null) {
                bounds[numColons] = expression();
            } else {
                throw new TemplateException("malformed subscript", peek().line(), null);
            }
        }
        if (numColons == 0) {
            Expression key = bounds[0];
            return scope -> Values.item(object.evaluate(scope), key.evaluate(scope));
        }
        return scope -> Values.slice(
                object.evaluate(scope), orNull(bounds[0], scope), orNull(bounds[1], scope), orNull(bounds[2], scope));
    }

    private static Object orNull(Expression expression, Scope scope) {
        return expression == null ? null : expression.evaluate(scope);
    }

    final Call.Inputs callArguments() {
        expectOperator("(");
        List<Expression> positional = new ArrayList<>();
        Map<String, Expression> named = new LinkedHashMap<>();
        while (!skipOperator(")")) {
            if (peek().kind() == Kind.NAME && tokens.get(at + 1).is(Kind.OPERATOR, "=")) {
                String name = next().text();
                next();
                named.put(name, expression());
            } else {
                positional.add(expression());
            }
            if (!isOperator(")")) {
                expectOperator(",");
            }
        }
        return new Call.Inputs(positional, named);
    }

    final Expression filtersAndTests(Expression start) {
        Expression value = start;
        while (true) {
            if (skipOperator("|")) {
                value = filter(value);
            } else if (skipName("is")) {
                value = test(value);
            } else if (isOperator("(")) {
                value = new Call(value, callArguments());
            } else {
                return value;
            }
        }
    }

    final Expression filter(Expression value) {
        String name = expect(Kind.NAME).text();
        Call.Inputs arguments = isOperator("(") ? callArguments() : NO_ARGUMENTS;
        return scope -> Filters.apply(name, value.evaluate(scope), arguments.evaluate(scope));
    }

    private Expression test(Expression value) {
        boolean negated = skipName("not");
        String name = expect(Kind.NAME).text();
        Call.Inputs arguments = NO_ARGUMENTS;
        if (isOperator("(")) {
            arguments = callArguments();
        } else if (startsTestArgument()) {
            arguments = new Call.Inputs(List.of(postfix(primary())), Map.of());
        }
        Call.Inputs given = arguments;
        return scope -> negated != Predicates.test(name, value.evaluate(scope), given.evaluate(scope));
    }

    private boolean startsTestArgument() {
        Token token = peek();
        return switch (token.kind()) {
            case NAME -> !WORD_OPERATORS.contains(token.text());
            case STRING, INTEGER, FLOAT -> true;
            default -> isOperator("[") || isOperator("{");
        };
    }
}
