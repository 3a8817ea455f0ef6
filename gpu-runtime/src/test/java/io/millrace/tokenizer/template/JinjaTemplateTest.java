package io.millrace.tokenizer.template;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class JinjaTemplateTest {
    private static final Clock CLOCK = Clock.fixed(Instant.parse("2026-03-05T07:08:09Z"), ZoneOffset.UTC);

    /** What transformers renders, or the error it raises, for 72 templates and chats. */
    @TestFactory
    Stream<DynamicTest> rendersWhatTransformersRenders() throws IOException {
        JsonNode golden;
        try (InputStream in = getClass().getResourceAsStream("/golden/chat_templates.json")) {
            golden = new ObjectMapper().readTree(in);
        }
        List<DynamicTest> tests = new ArrayList<>();
        for (JsonNode c : golden.get("cases")) {
            String name = tests.size() + " " + c.get("template").asText();
            tests.add(DynamicTest.dynamicTest(name, () -> check(golden, c)));
        }
        assertEquals(72, tests.size());
        return tests.stream();
    }

    private static void check(JsonNode golden, JsonNode c) {
        String source = golden.get("templates").get(c.get("template").asText()).asText();
        Map<String, Object> variables = new HashMap<>();
        c.get("variables").properties().forEach(e -> variables.put(e.getKey(), fromJson(e.getValue())));
        variables.put("messages", fromJson(c.get("messages")));
        variables.put("tools", fromJson(c.get("tools")));
        variables.put("add_generation_prompt", c.get("add_generation_prompt").asBoolean());
        variables.put("bos_token", golden.get("bos_token").asText());
        variables.put("eos_token", golden.get("eos_token").asText());
        JinjaTemplate template = JinjaTemplate.parse(source, CLOCK);
        if (c.has("error")) {
            TemplateException e = assertThrows(TemplateException.class, () -> template.render(variables));
            assertEquals(c.get("error").asText(), e.getMessage());
        } else {
            assertEquals(c.get("expected").asText(), template.render(variables).toString());
        }
    }

    private static Object fromJson(JsonNode node) {
        if (node.isTextual()) {
            return MarkedText.data(node.asText());
        } else if (node.isArray()) {
            List<Object> items = new ArrayList<>();
            node.forEach(item -> items.add(fromJson(item)));
            return items;
        } else if (node.isObject()) {
            Map<String, Object> map = new LinkedHashMap<>();
            node.properties().forEach(e -> map.put(e.getKey(), fromJson(e.getValue())));
            return map;
        } else if (node.isBoolean()) {
            return node.asBoolean();
        }
        return node.isNull() ? null : (Object) node.asLong();
    }

    private static String render(String source, Object... namesAndValues) {
        return renderMarked(source, namesAndValues).toString();
    }

    private static MarkedText renderMarked(String source, Object... namesAndValues) {
        Map<String, Object> variables = new HashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            variables.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        return JinjaTemplate.parse(source, CLOCK).render(variables);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = ';',
            quoteCharacter = '`',
            value = {
                "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }};3 -4 2 3.5 1024",
                "{{ 1e20 }} {{ 1.0 }} {{ 0.00001 }} {{ 1.5e3 }};1e+20 1.0 1e-05 1500.0",
                "{{ true }} {{ none }} {{ [1, 'a', none] }} {{ {'k': \"it's\"} }};True None [1, 'a', None] {'k': \"it's\"}",
                "{{ (1 + 2) ~ 3 }} {{ 1 ~ 2 == 12 }};33 False",
                "{{ 'a' ~ 1 ~ true }};a1True",
                "{{ 'abc'[1:] }} {{ 'abc'[::-1] }} {{ [1,2,3][-2:] }} {{ 'abc'[-1] }};bc cba [2, 3] c",
                "{{ 'x' if false }}|{{ 'x' if 0 else 'y' }};|y",
                "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ not 1 == 2 }};True False True",
                "{{ 'b' in 'abc' }} {{ 4 not in [1, 2] }} {{ 'k' in {'k': 1} }};True True True",
                "{{ ' a b  c '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }};['a', 'b', 'c'] ['a', 'b,c'] ['a,b', 'c']",
                "{{ 'xxaxx'.strip('x') }} {{ 'hello wORLD'.title() }} {{ 'hello wORLD'|capitalize }};a Hello World Hello world",
                "{{ 'a-b'.partition('-')|join }} {{ 'aXbXc'.replace('X', '', 1) }} {{ 'abab'.count('ab') }};a-b abXc 2",
                "{{ '<x>'.startswith(('a', '<')) }} {{ 'f.py'.endswith('.py') }} {{ 'abc'.find('c') }};True True 2",
                "{{ [3,1,2]|sort|join('-') }} {{ ['b','A']|sort }} {{ [1,1,2]|unique|list }};1-2-3 ['A', 'b'] [1, 2]",
                "{{ {'b':1,'a':[true,null_is_undefined is defined]}|tojson }};{\"b\": 1, \"a\": [true, false]}",
                "{{ {'a': 1}|tojson(indent=2)|replace('\\n', '/') }};{/  \"a\": 1/}",
                "{{ 'é\"\\n'|tojson }};\"é\\\"\\n\"",
                "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }}{{ ',' if not loop.last }}{% endfor %};a=1,b=2",
                "{% for x in [1,2,3,4] if x is even %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}none{% endfor %};1/2:2 2/2:4",
                "{% for x in [] %}x{% else %}none{% endfor %};none",
                "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %};013",
                "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }};1",
                "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }};2",
                "{% set x %}a{{ 1 }}{% endset %}[{{ x }}];[a1]",
                "{% macro m(a, b='z') %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}{{ m(1) }}{% call m(2, b=3) %}!{% endcall %};1z23!",
                "{% filter upper %}ab{% endfilter %}{% with a=1, b=2 %}{{ a + b }}{% endwith %};AB3",
                "{% raw %}{{ x }}{% endraw %}{# {{ comment }} #}.;{{ x }}.",
                "{{ x is defined }} {{ x|default('d') }} {{ none|default('d', true) }} {{ '' is string }};False d d True",
                "{{ [{'a':1},{'a':2}]|selectattr('a','equalto',2)|list }} {{ [{'a':{'b':5}}]|map(attribute='a.b')|first }};[{'a': 2}] 5",
                "{{ ['a','b']|map('upper')|join }} {{ 'a\\nb'|indent(2)|replace('\\n','/') }} {{ ' x '|trim }};AB a/  b x",
                "{{ strftime_now('%d %b %Y %-d') }} {{ 3.7|int }} {{ '12'|int + 1 }} {{ 2.5|round }};05 Mar 2026 5 3 13 2.0",
                "{{ namespace(a=1).a }} {{ dict(a=1).a }} {{ {'items': 1}['items'] }};1 1 1",
                "{% generation %}g{% endgeneration %}{{ loop is undefined }} {{ 'a' 'b' }};gTrue ab",
                "{{ 'q'.join(['a','b']) }} {{ 'ab'|length }} {{ 'ab'|list }} {{ (1,)|list }};aqb 2 ['a', 'b'] [1]",
            })
    void behavesAsPythonJinja(String source, String expected) {
        assertEquals(expected, render(source).strip());
    }

    @Test
    void stripsWhiteSpaceAsTransformersDoes() {
        assertEquals("a\n  x\nb", render("a\n  {% if true %}\n  x\n  {% endif %}\nb\n"));
        assertEquals("ab", render("a  \n {%- if true -%}\n  b{% endif %}"));
        assertEquals(" x", render("{# c #}\n x"));
        assertEquals("1\n2", render("{{ 1 }}\n{{ 2 }}"));
    }

    @Test
    void neverInterpretsData() {
        MarkedText evil = MarkedText.data("{{ 7*7 }}{% raise %}");
        assertEquals("{{ 7*7 }}{% raise %}", render("{{ x }}", "x", evil));
        assertEquals("{{ 7*7 }}{% raise %}", render("{% set y = x ~ '' %}{{ y|trim|replace('q', 'r') }}", "x", evil));
    }

    @Test
    void carriesMarksThroughOperations() {
        MarkedText data = MarkedText.data(" dAta ");
        MarkedText out = renderMarked("<{{ '[' ~ x.strip().upper()|replace('T', 'tt') ~ ']' }}>{{ x[1] }}", "x", data);
        assertEquals("<[DAttA]>d", out.toString());
        StringBuilder marks = new StringBuilder();
        for (int i = 0; i < out.length(); i++) {
            marks.append(out.isTemplate(i) ? 't' : 'd');
        }
        assertEquals("ttddttdttd", marks.toString());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{{ raise_exception('no') }}",
                "{{ missing.attribute }}",
                "{{ 'a' + 1 }}",
                "{{ x | nosuchfilter }}",
                "{{ [].append(1) }}",
                "{{ 'a'.getClass() }}",
                "{{ 1 // 0 }}",
                "{{ 9223372036854775807 + 1 }}",
                "{% for i in range(1000000) %}{% endfor %}",
                "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            })
    void failsWithAMessage(String source) {
        TemplateException e = assertThrows(TemplateException.class, () -> render(source));
        assertFalse(e.getMessage().isBlank());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"{% if x %}", "{{ x", "{% include 'a' %}", "{{ (1 }}", "{% endfor %}", "{{ 'a }}", "{{ ! }}"})
    void refusesMalformedSourceWithItsLine(String source) {
        TemplateException e =
                assertThrows(TemplateException.class, () -> JinjaTemplate.parse("line one\n" + source, CLOCK));
        assertTrue(e.line() >= 2, e.getMessage() + " at " + e.line());
    }
}
