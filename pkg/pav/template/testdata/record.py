#!/usr/bin/env python3
# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

"""Prints the conformance corpus: templates and what Jinja2 3.1 answers, one JSON object a line.

    python3 record.py > corpus.jsonl

"text" is the output, "yaml" is set if the template sets yaml to true, and "error" is the class of
the exception. The environment has the settings of the original that the seed describes: sandbox,
trim_blocks, lstrip_blocks, and only strings and numbers may be printed. It is not asynchronous,
since that only changes how get_pvc is awaited, and that lists are made lazily.
"""

import itertools
import json
import pathlib
import shlex
import sys
import warnings

import jinja2
import jinja2.sandbox

warnings.simplefilter("ignore")

VARIABLES = json.loads((pathlib.Path(__file__).parent / "variables.json").read_text())


def finalize(value):
    if isinstance(value, jinja2.Undefined):
        raise jinja2.UndefinedError("undefined is printed")
    if not isinstance(value, (str, int, float)):
        raise TypeError("neither a string nor a number is printed")
    return value


def tobash(value):
    if isinstance(finalize(value), str) and value == "":
        return "''"
    return "$'\\n'".join(line and shlex.quote(line) for line in str(value).split("\n"))


ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, finalize=finalize)
ENVIRONMENT.filters["tobash"] = tobash


def record(template):
    answer = {"template": template}
    try:
        module = ENVIRONMENT.from_string(template).make_module(VARIABLES)
        answer["text"] = str(module)
        yaml = getattr(module, "yaml", False)
        if not isinstance(yaml, bool):
            raise TypeError("yaml is not a boolean")
        if yaml:
            answer["yaml"] = True
    except Exception as err:  # whatever a template raises is its answer
        answer.pop("text", None)
        answer["error"] = type(err).__name__
    return answer


def product(pattern, *choices):
    """Fills the $1, $2, ... of a pattern with all combinations of choices."""
    for combination in itertools.product(*choices):
        template = pattern
        for i, choice in enumerate(combination, 1):
            template = template.replace(f"${i}", choice)
        yield template


def prints(*expressions):
    return ["{{ " + e + " }}" for e in expressions]


def dumps(*expressions):
    """Expressions whose values are printed as JSON."""
    return ["{{ (" + e + ")|tojson }}" for e in expressions]


def literals():
    yield from prints(
        "0", "7", "007", "00", "1_000", "1__0", "0b101", "0o17", "0xFf", "0x_f", "0b2", "1.5", "1.50", "1.", ".5", "1e3", "1E-3", "1.5e+10",
        "1_0.2_5", "1e16", "1e15", "123456789012345678", "1234567890123456.0", "12345678901234567.0", "0.0001", "0.00001", "1e22", "1e-7",
        "100000.0", "-0.0", "1e400", "-1e400", "0.1 + 0.2", "1/3", "2/2", "9223372036854775807", "-9223372036854775807", "1e100",
        "''", '""', "'a'", '"a"', "'a' 'b'", "'a' \"b\" 'c'", r"'\n'", r"'a\tb'", r"'\x41'", r"'\u00e9'", r"'\U0001F600'", r"'\101'", r"'\0'",
        r"'\q'", r"'\\'", r"'\''", r'"\""', r"'a\
b'", r"'\x4'", r"'\u12'", r"'\xzz'", "'a\nb'", "'é✓'", r"'\7'", r"'\18'", "'unclosed", '"x\'', "true", "none", "[]", "{}", "()", "[1,]", "{'a':1,}",
        "(1)", "1, 2", "1,", "i", "s", "f", "t", "nil", "l", "m", "big", "missing", "True", "None", "False", "capacity", "'{{'", "'%}'", "'{%'", "'}}'", "{'a':{'b':1}}.a.b",
        "'it''s'", "i}}{{i", "'😀'", "loop", "self", "5abc", "a b", "1 2", "'a' 1",
    )
    yield from dumps(
        "[1, 'a', none, true, 2.5]", "{'a': 1, 'b': [2, {'c': none}]}", "[[], {}, '']", "()", "(1,)", "(1, 2)", "[[1], [2]]", "{}", "[]", "none", "true", "false",
        "1", "1.0", "'x'", "[1,,2]", "[,]", "{'a' 1}", "{'a':}", "{,}", "[missing]", "missing",
    )


def operators():
    values = ["7", "(-3)", "0", "2.5", "t", "'ab'", "l", "nil", "missing"]
    yield from product("{{ ($1 $2 $3)|tojson }}", values, ["+", "-", "*", "/", "//", "%", "**"], values)
    yield from product("{{ ($1 $2 $3)|tojson }}", values, ["==", "<", "in"], values)
    yield from product("{{ ($1 $2 $3)|tojson }}", ["i", "'ab'", "l", "f"], ["!=", "<=", ">", ">=", "not in"], ["i", "'b'", "[3]", "2.5", "l"])
    yield from product("{{ ($1 $2 $3)|tojson }}", ["i", "no", "''", "missing", "'x'"], ["and", "or"], ["0", "'y'", "missing", "[]"])
    yield from product("{{ ($1 $2 $3)|tojson }}", ["7.5", "-7.5", "-7", "7"], ["//", "%"], ["2", "-2", "0.7", "-0.7", "2.5"])
    yield from dumps(
        "not i", "not ''", "not missing", "not not l", "-i", "+i", "-f", "--i", "- -i", "-t", "+t", "-s", "-nil", "-missing", "-l", "2 ** 3 ** 2", "-2 ** 2", "2 ** -1",
        "2 ** 0.5", "0 ** 0", "0.0 ** -1", "10 ** 18", "(-8) ** 3", "(-1) ** 1000001", "1 ** 100000", "2 ** 62", "1 + 2 * 3", "(1 + 2) * 3", "10 - 4 - 3", "100 / 10 / 5",
        "7 // 2 * 2", "1 < 2 < 3", "1 < 3 < 2", "3 > 2 >= 2", "1 == 1 == 1", "1 < 2 == true", "not 1 == 2", "not 'a' in s", "'Hello' in s", "'hello' in s", "'' in s",
        "1 in l", "9 in l", "'a' in m", "'z' not in m", "1 in m", "[1] in [[1]]", "1 in 's'", "nil in [none]", "1.0 in [1]", "true in [1]", "1 == true", "0 == false",
        "1 == 1.0", "'1' == 1", "none == false", "[1, 2] == [1.0, 2]", "{'a': 1} == {'a': 1.0}", "{'a': 1} == {'b': 1}", "[1, 2] < [1, 3]", "[1] < [1, 0]", "[] < [0]",
        "['a', 1] < ['b', none]", "[1] < ['a']", "'a' < 'b'", "'B' < 'a'", "'é' > 'z'", "{} < {}", "none < none", "9007199254740993 == 9007199254740992.0",
        "9007199254740993 > 9007199254740992.0", "9223372036854775807 < 9223372036854775808.0", "-1 < -0.5", "0 < 0.5", "1 < 0.5", "7 / 2", "6 / 2", "1 / 3", "-7 // 2", "-7 % 3", "7 % -3",
        "9007199254740993 / 3", "1e308 * 10", "(1e308 * 10) * 0", "1e308 ** 2", "5 % 3.5", "-5.5 // 2", "0.0 // 5", "1e300 // 1e-5", "1 if t", "1 if no", "1 if no else 2", "1 if no else 2 if no else 3", "(1 if t else 2) + 1",
        "1 + 1 if t else 5", "missing or 42", "missing and 1", "0 or '' or 'last'", "1 and 'x' and l", "(missing + 3) or 42", "i or missing.x", "no and missing.x", "i is defined and i > 40",
        "[1] + [2]", "[1] * 2", "2 * [1]", "'ab' * 2", "2 * 'ab'", "'ab' * 0", "'ab' * -1", "[1] + (2,)", "l[0] + l[1]", "'a' + 1", "1 + 'a'", "[1] - [1]", "m + m", "'a' - 'b'", "'a' * 'b'", "'a' * 1.5",
    )
    yield from prints(
        "'a' ~ 1", "1 ~ 2", "'a' ~ 2.5 ~ 'b'", "1 ~ 2 + 3", "1 + 2 ~ 3", "s ~ '-' ~ i", "1 ~ 2 * 3", "'a' ~ 'b' == 'ab'", "big * 1024", "capacity // 1024 // 1024", "capacity / 2", "(capacity / 2)|int",
        "1 - 1", "-1", "- 1", "1-1", "i-2", "i -2", "3 + -2", "2*-1", "2**3", "7%3", "7 %3", "7//2", "+1", "~1", "1 +", "* 2", "1 ** ", "not", "(1", "1)", "[1", "1]", "{'a': 1", "1 = 1", "1 == ", "a ? b", "1 & 1", "1 << 2", "a | b",
        "1;", "!1", "$x", "@", "1 is", "is 1", "x.", ".x", "x..y", "x[", "x[]", "f(", "i i", "if", "else", "x if", "1 if 2 else", "'a' if no",
    )


def subscripts():
    bounds = ["", "1", "-1", "5", "-9"]
    yield from product("{{ l[$1:$2:$3]|tojson }}", bounds, bounds, ["", "1", "2", "-1"])
    yield from product("{{ s[$1:$2$3] }}", bounds, bounds, ["", ":-1"])
    yield from dumps(
        "l[0]", "l[-1]", "l[9] is defined", "l[-9] is defined", "s[0]", "s[-1]", "s[99] is defined", "uni[1]", "uni[-1]", "uni[1:3]", "m['a']", "m.a", "m.b.c", "m['b']['c']", "m.b['c']", "m.z is defined",
        "m['z'] is defined", "m.z.y is defined", "m[0] is defined", "l.x is defined", "l['x'] is defined", "i.x is defined", "nil.x is defined", "l.0", "l.1", "users.0.name", "users[0].name", "users[0]['name']",
        "s.0", "l[true]", "l[1.5] is defined", "l[none] is defined", "l[::0]", "l['a':]", "l[none:2]", "l[1:none]", "s[1.5:]", "i[0] is defined", "i[0:1] is defined", "pvc.metadata.annotations['crypt/secretName']",
        "pvc.metadata.labels is defined", "pvc.metadata.labels.x is defined", "params['loca' ~ 'tion']", "[1,2,3][1]", "'abc'[1]", "{'a': 5}['a']", "{'a': 5}.a", "(1,2)[0]", "[[1,2],[3]][0][1]", "uni[::-1]", "uni|length", "s[::-1]", "m['items']",
        "l[0:2][1]", "l[:2] + l[2:]", "s[6:]", "s[:5]", "[1:2]", "l[1:2:3:4]", "l[0 1]", "'x'.y is defined", "t.x is defined", "__class__ is defined",
    )


def filters():
    plain = ["i", "n", "f", "neg", "s", "e", "num", "sp", "uni", "quote", "multi"]
    every = plain + ["l", "w", "el", "m", "em", "t", "nil", "missing"]
    yield from product("{{ $1|$2 }}", plain, ["capitalize", "lower", "title", "trim", "upper", "string", "tobash"])
    yield from product("{{ $1|$2|tojson }}", every, ["default('d')", "default('d', true)", "int", "float", "abs", "round", "length", "first", "last", "max", "min", "sort", "sum", "tojson", "dictsort"])
    yield from product("{{ $1|$2|list|tojson }}", every, ["list", "unique", "reverse", "items", "map('string')", "select", "reject"])
    yield from dumps(
        "missing|default", "missing|d", "nil|default('x')", "nil|d('x', true)", "e|d('x')", "e|d('x', true)", "e|d('x', boolean=true)", "missing|d(default_value=3)", "missing.x|default('y')", "m.z|default('y')", "m.z.y|default('x')",
        "'x'|d(missing)", "missing|d(missing)|d('end')", "0|d(5)", "0|d(5, true)", "'12'|int", "'12.7'|int", "'abc'|int", "'abc'|int(5)", "'abc'|int(default=6)", "''|int", "' 12 '|int", "'+12'|int", "'-12'|int", "'1_000'|int", "'_1'|int", "'1__0'|int", "'0x1f'|int", "'0x1f'|int(0, 16)",
        "'1f'|int(0, 16)", "'1f'|int(base=16)", "'0b11'|int(0, 2)", "'0o17'|int(0, 8)", "'17'|int(0, 8)", "'0x10'|int(0, 0)", "'010'|int(0, 0)", "'0'|int(0, 0)", "'zz'|int(0, 36)", "'1e3'|int", "'1e3'|float", "'inf'|float|string", "'nan'|float|string", "'-inf'|float|string", "'.5'|float", "'5.'|float", "'.'|float",
        "'1_0.5'|float", "'0x1'|float", "'abc'|float(2.5)", "'abc'|float(default='x')", "'1e400'|float|string", "3.99|int", "-3.99|int", "true|int", "true|float", "none|int", "none|int(7)", "[]|int", "m|int(3)", "'9223372036854775807'|int", "1e18|int", "2.5|round", "3.5|round", "-2.5|round", "2.675|round(2)", "42.55|round", "42.55|round(1)", "42.55|round(1, 'floor')",
        "42.55|round(1, 'ceil')", "42.55|round(method='ceil')", "42|round", "42|round(0, 'ceil')", "42|round(2)", "1234|round(-2)", "1250|round(-2)", "1350|round(-2)", "-1250|round(-2)", "1234.5|round(-2)", "15.0|round(-1)", "25.0|round(-1)", "1.5|round|int", "0.1|round(3)", "1.005|round(2)", "1e20|round(2)", "42|round(1, 'x')", "-42.55|round(1, 'floor')", "7|round(-1, 'ceil')",
        "-5|abs", "-2.5|abs", "5|abs", "true|abs", "'a'|abs", "0|abs", "-0.0|abs",
        "l|sort", "l|sort(true)", "l|sort(reverse=true)", "w|sort", "w|sort(case_sensitive=true)", "w|sort(reverse=true)", "users|sort(attribute='age')|map(attribute='name')|list", "users|sort(attribute='age,name')|map(attribute='name')|list", "users|sort(true, false, 'age')|map(attribute='name')|list",
        "users|sort(attribute='name')|map(attribute='name')|list", "users|sort(attribute='name', case_sensitive=true)|map(attribute='name')|list", "users|sort", "[1, 'a']|sort", "[none, none]|sort", "[1, none]|sort", "[2, 1.5, true]|sort", "[[2], [1, 5], [1]]|sort", "users|sort(attribute='x.y')", "[none]|sort", "'hello'|sort", "[{'a': 2}, {'a': 1}]|sort(attribute='a')", "[[2, 'a'], [1, 'b']]|sort(attribute=0)", "[[2, 'a'], [1, 'b']]|sort(attribute='1')",
        "l|max", "l|min", "w|max", "w|min", "w|max(true)", "w|min(case_sensitive=true)", "users|max(attribute='age')", "users|min(attribute='name')", "[1, 'a']|max", "[none, none]|max", "['b', 'A', 'a']|min", "[1, 2.5, true]|max", "[]|max|d('none')", "'hello'|max",
        "l|sum", "l|sum(start=10)", "users|sum(attribute='age')", "users|sum('age', 1.5)", "[[1], [2]]|sum(start=[])", "['a']|sum", "['a']|sum(start='')", "[0.1, 0.2]|sum", "[true, true]|sum", "[]|sum", "[]|sum(start=none)",
        "l|first", "l|last", "s|first", "s|last", "el|first is defined", "m|first", "''|last is defined", "l|length", "s|length", "m|length", "l|count", "uni|count", "i|length", "nil|length", "missing|length",
        "w|unique|list", "w|unique(true)|list", "users|unique(attribute='age')|map(attribute='name')|list", "[1, 1.0, true, '1']|unique|list", "[[1], [1]]|unique|list", "'hello'|unique|list", "[none, none]|unique|list", "[1.5, 1.5, 2]|unique|list",
        "l|reverse|list", "s|reverse", "uni|reverse", "el|reverse|list", "i|reverse", "m|items|list", "em|items|list", "{'b': 1}|items|list", "l|items|list", "'abc'|list", "m|list", "i|list", "nil|list",
        "m.b|dictsort", "{'a': 2, 'b': 1}|dictsort(by='value')", "{'a': 2, 'b': 1}|dictsort(reverse=true)", "{'B': 2, 'a': 1}|dictsort", "{'B': 2, 'a': 1}|dictsort(true)", "{'a': 1}|dictsort(by='x')", "{'a': 'B', 'b': 'a'}|dictsort(by='value')", "{'a': 'B', 'b': 'a'}|dictsort(true, 'value')", "l|dictsort",
        "users|map(attribute='name')|list", "users|map(attribute='x.y', default=0)|list", "users|map(attribute='z', default='?')|list", "users|map(attribute='on')|list", "w|map('upper')|list", "l|map('string')|list", "w|map('replace', 'p', 'P')|list", "['1', '2']|map('int')|list", "['x']|map('int', 7)|list", "['x']|map('int', default=7)|list", "['1f']|map('int', base=16)|list",
        "l|map('nosuch')|list", "l|map|list", "l|map(attribute='x')|map('default', 1)|list", "[[1, 2], [3]]|map('sum')|list", "[[1, 2], [3]]|map('first')|list", "[[1, 2], [3]]|map(attribute=0)|list", "[[1, 2], [3]]|map(attribute='0')|list", "w|map(length)|list", "[]|map('upper')|list", "w|map('length')|sum", "users|map(attribute='name', foo=1)|list", "[w, l]|map('map', 'string')|map('list')|list", "w|map('default', 1, 2, 3)|list",
        "l|select('odd')|list", "l|select('even')|list", "l|select('gt', 1)|list", "l|select('>', 1)|list", "l|select('greaterthan', 1)|list", "l|reject('odd')|list", "[0, 1, '', 'a', none]|select|list", "[0, 1, '', 'a', none]|reject|list", "[1, none, 'x']|select('string')|list", "[1, none]|select('none')|list", "w|select('in', ['Fig', 'pear'])|list", "l|select('nosuch')|list", "l|select('divisibleby', 3)|list", "l|select('sameas', none)|list", "w|select('eq', 'Fig')|list", "w|reject('==', 'Fig')|list",
        "users|selectattr('on')|map(attribute='name')|list", "users|rejectattr('on')|map(attribute='name')|list", "users|selectattr('age', 'gt', 26)|map(attribute='name')|list", "users|selectattr('name', 'equalto', 'bo')|map(attribute='age')|list", "users|selectattr('x', 'defined')|map(attribute='name')|list", "users|selectattr('x.y')|list|length", "users|rejectattr('x', 'defined')|map(attribute='name')|list", "users|selectattr|list", "users|selectattr('on', 'true')|list|length", "users|selectattr('age', 'in', [25])|map(attribute='name')|list",
        "i|nosuch", "i|", "|upper", "i|upper()", "i|upper(1)", "i|int(1, 2, 3)", "i|int(foo=1)", "i|round(precision=1, precision=2)", "s|replace('a')", "s|replace", "i|default(1, default_value=2)", "i|join('a', 'b', 'c')", "s | upper | lower", "s|upper|length", "-1|abs", "(-1)|abs", "1 + -1|abs", "'a' ~ 'b'|upper", "not 0|int", "i|string|length", "s|replace(old='l', new='L')", "s|replace('l', new='L', count=1)", "l|join(d='-')", "i.x|d('y')|upper",
    )
    yield from prints(
        "l|join", "l|join(',')", "l|join(', ')", "w|join('')", "users|join(', ', attribute='name')", "users|join(attribute='age')", "'abc'|join('-')", "m|join(',')", "[]|join(',')", "[1, 2.5, 'x']|join('|')", "l|join(1)", "missing|join(',')", "i|join", "[[1, 2], [3]]|join('-', 0)", "nil|join",
        "s|replace('l', 'L')", "s|replace('l', 'L', 1)", "s|replace('l', 'L', 0)", "s|replace('', '-')", "s|replace('', '-', 2)", "s|replace('World', '')", "i|replace(4, 'x')", "i|replace('2', 1)", "'aaa'|replace('aa', 'b')", "s|replace('l', 'L', -1)", "s|replace('l', 'L', none)", "''|replace('', 'x')", "uni|replace('', '.')",
        "sp|trim", "sp|trim(' x')", "'xxaxx'|trim('x')", "'xxaxx'|trim(chars='x')", "'abcba'|trim('ab')", "'  a'|trim('')", "i|trim", "'\\t a \\n'|trim", "s|trim(none)", "s|trim(1)", "'\\u00a0a\\u2003'|trim", "'\\x1ca\\x1f'|trim",
        "multi|indent", "multi|indent(2)", "multi|indent(2, true)", "multi|indent(2, first=true, blank=true)", "multi|indent('> ')", "multi|indent('> ', blank=true)", "multi|indent(width=1)", "''|indent", "''|indent(2, true)", "'a'|indent(2, true)", "'\\n'|indent(2, true, true)", "'a\\n'|indent", "'a\\r\\nb'|indent(2)", "multi|indent(0)", "multi|indent(-3)", "i|indent", "'a\\u2028b\\x0bc'|indent(1)", "multi|indent(2.5)",
        "'hello world'|title", "'HELLO-world foo(bar {x [y <z'|title", "\"it's a dog\"|title", "'éa'|title", "'1st place'|title", "'a\\nb'|title", "'hELLO'|capitalize", "'éA'|capitalize", "''|capitalize", "''|title", "'ÀÉ'|lower", "'àé'|upper", "'a_b'|title", "'a  b'|title",
        "i|string", "f|string", "big|string", "s|string", "1e16|string", "i|string ~ f|string", "i|lower", "f|upper", "'x'|upper|lower|title",
    )


def serialization():
    texts = ["plain", "a b", "it's", 'say \\"hi\\"', "<b>&</b>", "a\\nb", "a\\tb", "a\\\\b", "é", "✓", "😀", "\\x00", "\\x1f", "\\x7f", "\\u2028", "a/b", "$HOME", "`x`", "-n", "~", "a=b", "%x", "@:,.+_-", "#", "*", "a;b", "\\n", "a\\n", "\\na", "a\\n\\nb", " a\\nb ", "'", "''", "a\\r\\nb", "!", "{}", "\\u0000", "\\b\\f", "\\u00ff", "a|b", "(a)", "é\\nü", "a\\n'b'"]
    yield from product('{{ "$1"|$2 }}', texts, ["tojson", "tobash"])
    yield from prints(
        "[1, 2]|tojson", "{'b': 1, 'a': 2}|tojson", "{'a': {'z': 1, 'y': [true, none]}}|tojson", "m|tojson", "users|tojson", "i|tojson", "f|tojson", "1e16|tojson", "1e-7|tojson", "(1e308 * 10)|tojson", "(-1e308 * 10)|tojson", "nil|tojson", "t|tojson", "s|tojson", "quote|tojson", "uni|tojson", "el|tojson", "em|tojson", "[[]]|tojson", "[{}]|tojson",
        "l|tojson(2)", "m|tojson(2)", "m|tojson(indent=1)", "m|tojson(0)", "l|tojson('--')", "el|tojson(2)", "[[], {}, [1]]|tojson(2)", "1|tojson(2)", "m|tojson(none)", "{'é': 1, 'a<b': 2}|tojson", "{'B': 1, 'a': 2, 'A': 3}|tojson", "{'10': 1, '9': 2}|tojson", "missing|tojson", "[missing]|tojson", "range(3)|list|tojson", "s|tojson|length", "s|tojson|tojson", "'a' ~ l|tojson", "l|tojson ~ 'x'", "capacity|tojson", "params|tojson", "'x'|tojson|upper", "-0.0|tojson", "100.0|tojson", "1e15|tojson", "1.1|tojson",
        "i|tobash", "f|tobash", "l|tobash", "m|tobash", "nil|tobash", "missing|tobash", "handle|tobash", "s|tobash", "e|tobash", "multi|tobash", "quote|tobash", "uni|tobash", "big|tobash", "params.location|default('US')|tobash", "params.storageClass|default('STANDARD')|tobash", "params.nosuch|tobash", "s|tobash|tojson", "handle|tojson|tobash",
    )


def tests():
    values = ["i", "zero", "f", "s", "e", "l", "m", "t", "nil", "missing"]
    yield from product("{{ ($1 is $2)|tojson }}", values, ["defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "iterable", "sequence", "not defined", "odd", "even", "callable"])
    yield from dumps(
        "6 is divisibleby 3", "6 is divisibleby(4)", "6 is divisibleby 0", "6.0 is divisibleby 3", "i is eq 42", "i is eq(42)", "i is == 42", "i is ne 42", "i is gt 41", "i is ge 42", "i is lt 42", "i is le 42", "i is greaterthan 1", "i is lessthan 1", "i is equalto 42", "'a' is in s", "'H' is in s", "1 is in l", "9 is not in l", "1 is in [1]", "'a' is in m", "1 is in i",
        "'abc' is lower", "'aBc' is lower", "'ABC' is upper", "'123' is lower", "'' is upper", "i is lower", "nil is sameas none", "t is sameas true", "no is sameas true", "nil is sameas false", "'upper' is filter", "'nosuch' is filter", "'odd' is test", "'nosuch' is test", "range is callable", "range is defined", "i is nosuch", "i is", "i is not", "i is defined is defined", "i is odd or f", "i is even and t", "not i is even", "i is not even",
        "i is even == t", "i + 1 is odd", "(i + 1) is odd", "i is eq 40 + 2", "1.5 is odd", "3.0 is odd", "s is odd", "1 is odd", "-1 is odd", "-2 is even", "true is odd", "l is eq l", "i is divisibleby", "i is divisibleby 1 2", "i is defined(1)", "i is in", "i is none or i", "i is string if t else 1", "x.y is defined", "missing.x.y is defined", "m.b.c is string", "m.z is not defined", "'a' is string and 'b'", "i is eq i and i", "5 is in range(9)", "i is gt -1",
    )


def statements():
    yield from [
        "{% if i %}a{% endif %}", "{% if no %}a{% endif %}", "{% if no %}a{% else %}b{% endif %}", "{% if no %}a{% elif i %}b{% else %}c{% endif %}", "{% if no %}a{% elif no %}b{% else %}c{% endif %}", "{% if missing %}a{% else %}b{% endif %}", "{% if not missing %}a{% endif %}", "{% if i == 42 and s %}a{% endif %}", "{% if i %}{% if no %}a{% else %}b{% endif %}{% endif %}", "{% if 1, 0 %}a{% endif %}", "{% if (1 if t else 0) %}a{% endif %}", "{% if 1 if t else 0 %}a{% endif %}", "{% if i: %}a{% endif %}", "{% if %}a{% endif %}", "{% if i %}a", "{% if i %}a{% endfor %}", "{% endif %}", "{% else %}", "{% elif i %}", "{% if i %}a{% else %}b{% else %}c{% endif %}", "{% if i %}a{% else %}b{% elif t %}c{% endif %}", "{% if i endif %}", "{% if i %}a{% endif", "{% if i }}a{% endif %}", "{% if missing.x %}a{% endif %}", "{% if i %}a{% endif x %}",
        "{% for x in l %}{{ x }},{% endfor %}", "{% for x in s %}{{ x }}.{% endfor %}", "{% for x in m %}{{ x }}.{% endfor %}", "{% for x in el %}a{% else %}b{% endfor %}", "{% for x in l %}a{% else %}b{% endfor %}", "{% for x in missing %}a{% else %}b{% endfor %}", "{% for x in i %}a{% endfor %}", "{% for x in nil %}a{% endfor %}", "{% for x in missing.y %}a{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}", "{% for x in [1, 2] %}{{ x }}{% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}", "{% for k, v in m.b.items() %}{{ k }}={{ v }}{% endfor %}", "{% for k, v in m.b|items %}{{ k }}={{ v }}{% endfor %}", "{% for k, v in m.b|dictsort %}{{ k }}={{ v }}{% endfor %}", "{% for (k, v) in [[1, 2]] %}{{ k }}{{ v }}{% endfor %}", "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in ['xy'] %}{{ a }}-{{ b }}{% endfor %}", "{% for a, in [[1]] %}{{ a }}{% endfor %}", "{% for [a, b] in [[1, 2]] %}{% endfor %}",
        "{% for x in l if x > 1 %}{{ x }}{% endfor %}", "{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}", "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "{% for x in l if x is odd %}{{ x }}{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %}", "{% for x in range(1, 3) %}{{ x }}{% endfor %}", "{% for x in range(5, 0, -2) %}{{ x }}{% endfor %}", "{% for x in range(0) %}a{% else %}b{% endfor %}", "{% for x in range(1, 2, 0) %}{% endfor %}", "{% for x in range() %}{% endfor %}", "{% for x in range('a') %}{% endfor %}", "{% for x in range(1.5) %}{% endfor %}", "{{ range(3)|list|tojson }}", "{{ range(2)|length }}", "{{ range(9)|sum }}", "{{ 3 in range(5) }}|x",
        "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }} {% endfor %}", "{% for x in l %}{{ loop.first|tojson }}{{ loop.last|tojson }} {% endfor %}", "{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}", "{% for x in l %}{{ loop.previtem|d('-') }}{{ loop.nextitem|d('-') }} {% endfor %}", "{% for x in l %}{{ loop.previtem }}{% endfor %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}", "{% for x in [1, 1, 2] %}{{ loop.changed(x)|tojson }} {% endfor %}", "{% for x in l %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "{% for x in l %}{{ loop.nosuch }}{% endfor %}", "{% for x in l %}{{ loop }}{% endfor %}", "{% for x in l %}{% for y in 'ab' %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}", "{{ loop }}", "{{ loop.index }}", "{% for x in l %}{% endfor %}{{ loop }}", "{% for x in l %}{{ loop.index * 2 }}{% endfor %}",
        "{% for x in l %}{% endfor %}{{ x }}", "{% for i in l %}{{ i }}{% endfor %}{{ i }}", "{% for loop in l %}{% endfor %}", "{% for x in l %}{% set loop = 1 %}{% endfor %}", "{% for x in l %}{% set i = x %}{{ i }}{% endfor %}{{ i }}", "{% set y = 0 %}{% for x in l %}{% set y = y + x %}{{ y }} {% endfor %}{{ y }}", "{% for x in l %}{% if x == 1 %}{% set z = x %}{% endif %}{{ z|d('-') }}{% endfor %}", "{% for x in l %}a", "{% for x in %}{% endfor %}", "{% for in l %}{% endfor %}", "{% for x l %}{% endfor %}", "{% for 1 in l %}{% endfor %}", "{% for x.y in l %}{% endfor %}", "{% for true in l %}{% endfor %}", "{% for x in l %}{% endif %}", "{% for x in l %}{% else %}a{% else %}b{% endfor %}", "{% endfor %}", "{% for x in l %}{% break %}{% endfor %}", "{% for x in l %}{% continue %}{% endfor %}", "{% for x in l if %}{% endfor %}", "{% for x in l -%} {{ x }} {%- endfor %}", "{% for u in users %}{{ u.name }}:{{ u.age }} {% endfor %}", "{% for u in users if u.on %}{{ u.name }}{% endfor %}",
        "{% set a = 1 %}{{ a }}", "{% set a = 1, 2 %}{{ a|tojson }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = 'xy' %}{{ b }}{{ a }}", "{% set a, b = [1] %}", "{% set a = b = 1 %}", "{% set (a, b) = [1, 2] %}{{ a + b }}", "{% set a %}x{{ i }}y{% endset %}{{ a }}", "{% set a | upper %}x{{ i }}y{% endset %}{{ a }}", "{% set a | replace('x', 'z') | upper %}x{% endset %}{{ a }}", "{% set a %}{% set b = 1 %}{{ b }}{% endset %}{{ a }}{{ b|d('-') }}", "{% set a %}{% if t %}{% set c = 2 %}{% endif %}{{ c }}{% endset %}{{ a }}{{ c|d('-') }}", "{% set a %}x", "{% set a %}", "{% set = 1 %}", "{% set a = %}", "{% set a 1 %}", "{% set 1 = a %}", "{% set true = 1 %}", "{% set None = 1 %}", "{% set a.b = 1 %}", "{% set m.a = 5 %}", "{% set a[0] = 1 %}", "{% set s = 'mine' %}{{ s }}", "{% if t %}{% set a = 1 %}{% endif %}{{ a }}", "{% if no %}{% set a = 1 %}{% endif %}{{ a|d('-') }}", "{% if t %}{% set s = 1 %}{% endif %}{{ s }}", "{{ a|d('-') }}{% set a = 1 %}{{ a }}", "{% set a = 'x' if no else 'y' %}{{ a }}", "{% set a = missing %}{{ a|d('z') }}", "{% set a = l %}{% set b = a + [9] %}{{ a|tojson }}{{ b|tojson }}", "{% set a, = [7] %}{{ a }}", "{% set a=1%}{{a}}", "{%set a=1%}{{a}}", "{% set loop = 1 %}{{ loop }}", "{% endset %}",
        "{% set ns = namespace(x=0) %}{% for v in l %}{% set ns.x = ns.x + v %}{% endfor %}{{ ns.x }}", "{% set ns = namespace() %}{{ ns.x|d('-') }}", "{% set ns = namespace(m.b) %}{{ ns.c }}", "{% set ns = namespace({'a': 1}, a=2) %}{{ ns.a }}", "{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.a = 2 %}{{ ns.a }}", "{% set ns = namespace(1) %}", "{{ namespace() }}", "{{ dict(a=1)|tojson }}", "{{ dict({'a': 1}, b=2)|tojson }}", "{{ dict()|tojson }}", "{{ dict(m.b, c=3).c }}", "{{ dict(1) }}",
        "{% set yaml = true %}a: {{ i }}", "{% set yaml = false %}a", "{% set yaml %}true{% endset %}a", "{% if t %}{% set yaml = true %}{% endif %}a", "{% for x in l %}{% set yaml = true %}{% endfor %}a", "{% set yaml = no %}a", "{% set yaml = t and s %}a", "{% set yaml = i == 42 %}x", "  {% set yaml = true %}\n- 1\n", "{% set yaml, z = true, 1 %}a", "{{ yaml|d('unset') }}",
        "{% raw %}{{ x }}{% endraw %}", "{% raw %}{% if %}{% endraw %}", "{% raw %}a", "{% raw %}{% endraw", "{% raw x %}{% endraw %}", "{%raw%}x{%endraw%}", "{% raw %}{# c #}{% endraw %}", "{% endraw %}", "{% raw %}{% raw %}{% endraw %}", "{% raw %}{{ '{% endraw %}",
        "{% macro f() %}{% endmacro %}", "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}", "{% block b %}{% endblock %}", "{% call f() %}{% endcall %}", "{% filter upper %}x{% endfilter %}", "{% with a = 1 %}{{ a }}{% endwith %}", "{% autoescape true %}{% endautoescape %}", "{% print i %}", "{% do i %}", "{% trans %}x{% endtrans %}", "{% debug %}", "{% nosuch %}", "{% %}", "{% 1 %}", "{% 'x' %}", "{% for x in l recursive %}{% endfor %}",
        "", "x", "\n", "\n\n", "a\n", "a\n\n", " a ", "{{", "{{ }}", "}}", "%}", "#}", "{", "{ {", "{%", "{#", "{# x", "{{ i", "{{ i }", "{{ i %}", "{% if i }}", "{{ '}}' }}", "{{ \"%}\" }}", "{{i}}", "{{i}}{{i}}", "a{{ i }}b{{ s }}c", "{{ {'a': {'b': 1}}.a.b }}", "{{ {'a':{'b':1}}|tojson }}", "{{\ni\n}}", "{{ i\n  +\n  1 }}", "é{{ i }}✓", "{{ 'a' }}\r\n{{ 'b' }}\r\n", "a\rb", "{{ 'a\r\nb' }}", "{{ {} }}", "{{ [1, 2, 3] }}", "x: {{ [1] }}", "{# {{ x }} #}y", "{## a ##}y", "{# a\nb #}c", "a{##}b", "{#-#}", "{#--#}", "{#+#}x", "{{ {}}}", "{{ i }}}", "{{{ i }}", "{{ '{' }}{{ '}' }}", "{% if i %}\n{% endif %}",
    ]


def whitespace():
    begin, end = ["{%", "{%-", "{%+"], ["%}", "-%}", "+%}"]
    yield from product("a\n  $1 if t $2\n  b\n  $1 endif $2\n  c\n", begin, end)
    yield from product("  $1 set x = 1 $2  \n\n d", begin, end)
    yield from product("a $1 if t $2 b $1 endif $2 c\n\n", begin, end)
    yield from product("a\n\n  $1 for x in l $2\n{{ x }}\n$1 endfor $2\nz", begin, end)
    yield from product("a \n $1 raw $2 \n {{ }} \n $3 endraw $4 \n b", begin, ["%}", "-%}"], begin, end)
    yield from product("a \n $1 c $2 \n b", ["{#", "{#-", "{#+"], ["#}", "-#}", "+#}"])
    yield from product("a $1 c $2 b\n", ["{#", "{#-", "{#+"], ["#}", "-#}", "+#}"])
    yield from product("a \n $1 i $2 \n b", ["{{", "{{-", "{{+"], ["}}", "-}}"])
    yield from product("$1 if t $2$1 set y = 2 $2\n\t$1 endif $2\n.", begin, end)
    yield from product("{{ i }}$1 if t $2\n x $1 endif $2", begin, end)
    yield from product("{{ i }}\n $1 if t $2\n x", ["{{ i -}}\n ", "{# c #}\n ", "{% set z = 1 %}\n "], [""])
    yield from [
        "  {{ i }}", "\t{% if t %}\n\tx\n\t{% endif %}\n", "{% if t %}\n\n\nx{% endif %}", "a\n{% if t %}x{% endif %}\n", "a\n  x {% if t %}y{% endif %}\n", "{%- set a = 1 -%}\n\n  x", "x\n\n{%- set a = 1 %}", "x \u00a0{%- set a = 1 %}", "\u00a0{% set a = 1 %}x", "\u2003{% set a = 1 %}x", "{% set a = 1 -%}\u00a0x", "a\n  {# c #}\nb", "a\n  {# c #} b", "  {% raw %}  {% endraw %}  ", "a\r\n  {% if t %}\r\nb\r\n{% endif %}\r\n", "{{- i -}}", " {{- i }} ", " {{ i -}} ", "{{-1}}", "{{ -1 }}", "{{+1}}", "{{- -1}}", "{% if t -%}\n  a\n{%- endif %}\nb", "a\n{%+ if t %}b{% endif %}", "  {%+ if t %}b{% endif %}", "{% if t +%}\nb{% endif %}", "args: [\n  {% for x in l %}\n  {{ x }},\n  {% endfor %}\n]\n", "{% set a = 1 %}{% set b = 2 %}\n{{ a }}{{ b }}", "{% set a = 1 %}\n\n", "{% if t %}\n{% endif %}\n", "x{% set a %}\n  y\n{% endset %}\n[{{ a }}]",
    ]


def undefined():
    yield from prints(
        "missing", "missing.x", "missing['x']", "missing()", "missing[0]", "m.z", "m.z.y", "m['z']", "l[9]", "missing + 1", "1 + missing", "missing|upper", "missing or 'x'", "missing and 'x'", "'x' if missing else 'y'", "missing if t", "missing == missing", "(missing == none)|tojson", "(missing == 0)|tojson", "(missing != 1)|tojson", "missing < 1", "(missing in [1])|tojson", "(1 in missing)|tojson", "('a' in missing)|tojson", "missing in 'abc'", "missing|length", "missing|list|tojson", "missing|first", "missing|sum", "missing|sort|tojson", "missing|int", "missing|float", "missing|abs", "missing|round", "missing|default('x')|upper", "missing|max", "missing|dictsort", "missing|items|list|tojson",
        "missing[1:2]", "missing.items()", "s.nosuch()", "l.nosuch", "m.nosuch()", "i.nosuch()", "nosuch(1)", "s()", "i()", "nil()", "l.append(1)", "m.update({})", "m.pop('a')", "l.__class__", "s.__class__", "''.__class__.__mro__", "range.__globals__", "s|attr('x')", "params.nosuch", "params.nosuch or 'x'", "params.implicitDirs or 'x'", "not missing|d(false)", "missing is defined or 5", "[missing]|length", "{'a': missing}|length", "[missing][0]|d('z')", "(missing,)|length", "missing ** 2", "-missing", "not missing", "missing|tojson", "missing|string", "'a' ~ missing", "missing|join", "missing|replace('a', 'b')", "missing|trim", "missing|unique|list|tojson", "missing|reverse|list|tojson", "missing|map('upper')|list|tojson", "missing|select|list|tojson", "missing|batch(2)",
    )


def methods():
    yield from dumps(
        "s.upper()", "s.lower()", "s.split()", "s.split(' ')", "'a,b,,c'.split(',')", "'a,b,c'.split(',', 1)", "'a,b,c'.split(sep=',', maxsplit=1)", "'a b  c '.split(none, 1)", "' a  b c '.split(maxsplit=1)", "' a  b '.split(' ')", "''.split()", "''.split(',')", "'abc'.split('')", "'a,b,c'.rsplit(',', 1)", "' a b  c '.rsplit(none, 1)", "'a,b'.rsplit(',')", "' a b '.rsplit()", "'abc'.rsplit(',', 0)", "'  a b'.split(none, 0)", "multi.splitlines()", "multi.splitlines(true)", "'a\\r\\nb\\n'.splitlines()", "'\\n'.splitlines()", "''.splitlines()",
        "sp.strip()", "sp.lstrip()", "sp.rstrip()", "'xax'.strip('x')", "'xax'.lstrip('x')", "'xax'.rstrip('x')", "s.startswith('He')", "s.startswith('he')", "s.startswith(('x', 'He'))", "s.endswith('ld')", "s.endswith(('x', 'y'))", "s.startswith(1)", "s.startswith('')", "s.replace('l', 'L')", "s.replace('l', 'L', 1)", "s.replace(1, 2)", "s.replace('l')", "','.join(['a', 'b'])", "','.join([1])", "','.join('abc')", "''.join([])", "','.join(l|map('string'))", "s.find('o')", "s.find('z')", "s.rfind('o')", "uni.find('✓')", "s.count('l')", "s.count('')", "'aaa'.count('aa')", "s.capitalize()", "'a-b-c'.partition('-')", "'abc'.partition('-')", "'a-b-c'.rpartition('-')", "'abc'.rpartition('-')", "'abc'.partition('')",
        "'abc'.removeprefix('a')", "'abc'.removesuffix('c')", "'abc'.removesuffix('x')", "'42'.zfill(5)", "'-42'.zfill(5)", "'42'.zfill(1)", "''.zfill(2)", "'12'.isdigit()", "''.isdigit()", "'1a'.isdigit()", "'ab'.isalpha()", "'a1'.isalnum()", "'a '.isalnum()", "s.upper().lower()", "s.upper()[0]", "s.upper", "(s.upper() ~ 'x')|length", "s.nosuch()", "s.upper(1)", "s.split(foo=1)",
        "m.get('a')", "m.get('z')", "m.get('z', 5)", "m.get('z', default=5)", "m.get()", "m.get(1)", "m.b.get('c', 'x')", "params.get('location')", "params.get('nosuch', 'x')", "m.keys()|list", "m.b.keys()|list", "m.b.values()|list", "m.b.items()|list", "m.items()|list|length", "m.keys()|length", "'a' in m.keys()", "'a' in m.b.values()", "l.count(1)", "l.index(2)", "l.index(9)", "[1, 1.0, true].count(1)", "l.append(4)", "l.sort()", "l.extend([1])", "m.clear()",
        "'%s' % 1", "'a{}'.format(1)", "s.encode()", "s.title()", "pvc.metadata.name.split('-')[0]", "accessModes|join(',')", "'ReadWriteMany' in accessModes", "'ReadOnlyMany' in accessModes", "f.is_integer()", "i.bit_length()", "l.copy()", "m.copy()",
    )


def formatting():
    numbers = ["42", "-7", "0", "2.5", "-0.001", "123456789", "1e20", "100000.0", "1234567.0", "true"]
    yield from product("{{ '[%$1]' % $2 }}", ["d", "5d", "05d", "-5d", "+d", " d", "x", "X", "o", "i", "08x", "f", ".2f", "08.3f", "e", ".0f", "g", ".3g", "10.1e", "G", "s", "6s"], numbers)
    yield from prints(
        "'%s' % s", "'%20s|' % s", "'%-20s|' % s", "'%.3s|' % s", "'%10.3s|' % s", "'%05s' % s", "'%s-%s' % (s, i)", "'%s' % (s, i)", "'%s %s' % s", "'%d%%' % 5", "'%%' % ()", "'%' % 5", "'%5' % 5", "'%z' % 5", "'%d' % 'a'", "'%x' % 2.5", "'%s' % missing", "'%s' % 'é✓'", "'%5s|' % '✓'",
        "'%03d'|format(i)", "'%s, %s!'|format(s, i)", "'%s'|format", "'x'|format", "'x'|format(1)", "'pvc-%s'|format(pvc.metadata.uid)", "i|format", "'%.1fGi'|format(capacity / 1073741824)", "'%d' % 1e30", "'%*d' % (5, 1)", "'%+5.1f' % f", "'%u' % 7", "'%F' % 1.5", "'%E' % 12345.678", "'%G' % 1e-10", "'%g' % 0.0001", "'%g' % 0.00001", "'%g' % 1e6", "'%g' % 123456", "'%.10g' % 0.1", "'% 5d|' % 3", "'%-05d|' % 3", "'%+05d' % 3", "'%5%|' % ()", "'a%sb%sc' % (1, 2)", "'%s' % ''", "'' % ()",
    )


def different():
    """Where the package differs on purpose, besides templates of other groups: differences_test.go has the reasons."""
    yield from [
        "{{ 1 == 1 }}", "{{ readOnly }}", "{{ true ~ '' }}", "{{ t|string }}", "{{ t|tobash }}", "{{ nil ~ '' }}", "{{ nil|string }}", "{{ nil|lower }}", "{{ l ~ '' }}", "{{ l|string }}", "{{ m|upper }}", "{{ l|join(none) }}", "{{ [true, none]|join(',') }}", "{{ [[1], [2]]|join }}", "{{ s|replace('l', none) }}", "{{ nil is lower }}",
        "{{ [missing]|join }}", "{{ [missing, 1]|map('string')|join }}", "{{ missing|title }}", "{{ missing|capitalize }}", "{{ missing|lower }}", "{{ 'x' ~ params.lokation }}",
        "{{ 9223372036854775807 + 1 }}", "{{ 2 ** 63 }}", "{{ 2 ** 100 // 2 ** 90 }}", "{{ 9223372036854775808 }}", "{{ 1e19|int }}", "{{ '9223372036854775808'|int }}", "{{ -9223372036854775807 - 2 }}", "{{ big * big }}", "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ ((1, 2) == [1, 2])|tojson }}", "{{ ((1, 2) in [[1, 2]])|tojson }}", "{{ ((1,) + [2])|tojson }}",
        "{{ {1: 2}[1] }}", "{{ {none: 2}|length }}", "{{ {i: 2}|length }}", "{{ {missing: 1}|length }}",
        "{% for k in {'b': 1, 'a': 2} %}{{ k }}{% endfor %}", "{{ {'b': 1, 'a': 2}|list|tojson }}", "{{ {'b': 1, 'a': 2}.items()|list|tojson }}", "{{ {'b': 1, 'a': 2}.values()|list|tojson }}", "{{ {'b': 1, 'a': 2}|first }}", "{{ {'b': 1, 'a': 2}|join }}", "{{ {'b': 1, 'B': 2}|dictsort|tojson }}",
        "{{ l|map('string')|length }}", "{{ l|map('string')|tojson }}", "{{ l|select('odd')|last }}", "{{ (l|unique)[0] }}", "{{ 'a' if el|select else 'b' }}", "{{ m.b.keys()|tojson }}", "{{ m.b.items()|tojson }}", "{{ range(3)|tojson }}", "{{ m.b.keys()[0] }}", "{{ (l|reverse) + [1] }}|x",
        "{{ m.items }}", "{{ ('x' if em.items else 'y') }}", "{{ s.upper is defined and 'x' or 'y' }}", "{{ {'get': 1}.get }}",
        "{{ 'ß'|upper }}", "{{ 'ß'|capitalize }}", "{{ 'ΑΣ'|lower }}", "{{ '\\N{BULLET}' }}", "{{ '\\é' }}", "{{ '\\ud800'|length }}",
        "{{ 1 is sameas 1 }}|x", "{{ 'x' is escaped }}|x", "{{ 'a'|safe }}", "{{ 'a'|e }}", "{{ s|truncate(5) }}", "{{ s|wordcount }}", "{{ l|batch(2)|list|tojson }}", "{{ 's %s'|format(1) }}", "{{ s|center(20) }}", "{{ users|groupby('age')|length }}", "{{ lipsum(n=1)|length > 1 and 'x' }}", "{% set j = joiner('|') %}{{ j() }}",
        "{{ range(*[3])|length }}", "{{ dict(**{'a': 1})|length }}", "{{ l[0, 1]|d('x') }}", "{{ m[] is defined and 1 }}|x", "{{ (m['items'])() }}", "{{ m.b['items']()|list|tojson }}", "{{ (t and s)|nosuch if no else 1 }}", "{{ (l|map('nosuch'))|d(1) and 1 }}", "{{ m.b.get([1]) }}", "{{ ([1] in m)|tojson }}", "{{ [[1]]|unique|list|length }}", "{{ ([1, 'a']|map('abs'))|first }}",
        "{{ [1,2,3] is sequence and 1 }}", "{{ range(200000)|length }}", "{{ ('a' * 10000000)|length }}", "{{ 42|round(401) }}", "{{ 1.5|round(401) }}", "{{ '%.3d' % 5 }}", "{{ '%r' % 5 }}", "{{ '%c' % 65 }}", "{{ '%#x' % 255 }}", "{{ '%(a)s' % {'a': 1} }}", "{{ '%(a)s'|format(a=1) }}", "{{ '%f' % (1e308 * 10) }}", "{{ '%s' % [1] }}", "{{ '%s' % t }}", "{{ '%1001d' % 5 }}", "{{ '%ld' % 5 }}",
    ]


def examples():
    yield from [
        "{{ requestedMinCapacity }}", "{{ capacity }}", "{{ pvc.metadata.namespace }}", "{{ pvc.metadata.annotations['crypt/secretName'] }}", "{{ pvc.metadata.annotations['crypt/nosuch'] }}", "dev={{ handle | tobash }}\nopen \"$dev\"\n", "close {{ handle | tobash }} || (( $? == 4 ))", "-l {{ params.location | default('US') | tobash }} \\\n{% if params.retention is defined %}\n--retention {{ params.retention | tobash }} \\\n{% endif %}\nend\n",
        "{% set ttl = '0' if 'ReadWriteMany' in accessModes else '1m0s' %}\nmount --ttl {{ params.ttl | default(ttl) | tobash }}\n", "{% if params.implicitDirs %}\n--implicit-dirs \\\n{% endif %}\nx", "{% set yaml = true %}\n- name: {{ pvc.metadata.name | tojson }}\n{% for mode in accessModes %}\n- {{ mode }}\n{% endfor %}\n", "{% set yaml = true %}{{ ' \\n ' }}", "{% set yaml = true %}x: {{ '[1, \"2\", 3]' }}", "ab{% if b==3 %}c{% endif %}{% if x is defined %}d{% endif %}", "{{ (abc + 3) or 42 }}", "{% set yaml = true %}{{ abc or 42 }}", "{{ { \"a\": \"1\", \"b\": 2 } | tojson }}", "size={{ (capacity / 1048576) | round(0, 'ceil') | int }}M", "{{ 'true' if readOnly else 'false' }}", "{{ readOnly|tojson }}", "{% set gi = capacity // 1024 ** 3 %}{{ gi }}Gi", "{{ ('pvc-' ~ pvc.metadata.uid)[:6] }}", "{{ [params.dirMode, '777']|first }}",
    ]


def main():
    seen = set()
    for group in (literals, operators, subscripts, filters, serialization, tests, statements, whitespace, undefined, methods, formatting, different, examples):
        for template in group():
            if template not in seen:
                seen.add(template)
                print(json.dumps(record(template), ensure_ascii=False))


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    main()
