// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestErrors checks positions and messages.
func TestErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		template string
		want     Error
	}{
		"undefined": {"a: {{ nosuch }}", Error{1, 7, "'nosuch' is undefined"}},
		"undefined attribute, third line": {
			"a\nb\n  c: {{ params.nosuch }}", Error{3, 16, "'params.nosuch' is undefined"},
		},
		"undefined subscript": {
			"{{ pvc.metadata.annotations['x/y'] }}", Error{1, 28, "'pvc.metadata.annotations['x/y']' is undefined"},
		},
		"attribute of undefined": {"{{ pvc.metadata.labels.app }}", Error{1, 24, "'pvc.metadata.labels' is undefined"}},
		"undefined in an operator": {
			"{{ 1 + nosuch }}", Error{1, 6, "'nosuch' is undefined"},
		},
		"columns count characters": {"é✓😀{{ nosuch }}", Error{1, 7, "'nosuch' is undefined"}},
		"CRLF":                     {"a\r\nb\r\n{{ nosuch }}", Error{3, 4, "'nosuch' is undefined"}},
		"CR":                       {"a\rb\r{{ nosuch }}", Error{3, 4, "'nosuch' is undefined"}},
		"a list is printed": {
			"{{ l }}", Error{1, 4, "a list has no text: only strings and numbers can be printed; use the filter tojson"},
		},
		"a boolean is concatenated": {
			"{{ 'a' ~ t }}", Error{1, 10, "a boolean has no text: only strings and numbers can be printed; use the filter tojson"},
		},
		"none is printed": {
			"{{ nil }}", Error{1, 4, "none has no text: only strings and numbers can be printed; use the filter tojson"},
		},
		"division by zero":      {"{{ 1 // (i - 42) }}", Error{1, 6, "division by zero"}},
		"overflow":              {"{{ big * big }}", Error{1, 8, "the integer is outside of the range of 64 bits"}},
		"operator":              {"{{ 'a' + 1 }}", Error{1, 8, "the operator + does not apply to a string and an integer"}},
		"order":                 {"{{ 'a' < 1 }}", Error{1, 8, "a string and an integer have no order"}},
		"iteration":             {"{% for x in 5 %}{% endfor %}", Error{1, 13, "cannot iterate over an integer"}},
		"unpacking":             {"{% set a, b = [1, 2, 3] %}", Error{1, 8, "cannot assign 3 elements to 2 names"}},
		"yaml":                  {"\n {% set yaml = 'x' %}", Error{2, 9, "the variable yaml must be true or false, not a string"}},
		"inline if":             {"{{ 'a' if no }}", Error{1, 8, "the condition is false, and there is no else"}},
		"not callable":          {"{{ i(1) }}", Error{1, 4, "an integer cannot be called"}},
		"method":                {"{{ l.append(1) }}", Error{1, 6, "a list has no method 'append'"}},
		"argument of a method":  {"{{ s.startswith(1) }}", Error{1, 6, "the argument prefix must be a string, not an integer"}},
		"missing argument":      {"{{ s.replace('a') }}", Error{1, 6, "replace: the argument new is missing"}},
		"function":              {"{{ fail('x') }}", Error{1, 4, "fail: no claim x"}},
		"names for a function":  {"{{ fail(name='x') }}", Error{1, 4, "fail: arguments have no names"}},
		"undefined to function": {"{{ fail([nosuch]) }}", Error{1, 4, "'nosuch' is undefined"}},
		"loop to function":      {"{% for x in l %}{{ fail(loop) }}{% endfor %}", Error{1, 20, "a loop cannot be an argument of a function"}},
		"foreign Go type":       {"{{ foreign }}", Error{1, 4, "a value of the unsupported Go type int has no text: only strings and numbers can be printed; use the filter tojson"}},
		"dynamic filter":        {"{{ l|map('nosuch') }}", Error{1, 6, "unknown filter 'nosuch'; the filters are " + names(filters)}},
		"namespace":             {"{% set m.a = 1 %}", Error{1, 8, "cannot assign to m.a: m is not a namespace"}},
		"dict key":              {"{{ {1: 2}|tojson }}", Error{1, 4, "the keys of a dict are strings, not an integer"}},

		"unclosed expression": {"a\n b {{ x", Error{2, 4, "{{ is not closed"}},
		"unclosed statement":  {"{% if x", Error{1, 1, "{% is not closed"}},
		"unclosed comment":    {"a {# x", Error{1, 3, "the comment has no end, #}"}},
		"unclosed raw":        {"a {% raw %} x", Error{1, 3, "the raw block has no end, {% endraw %}"}},
		"unclosed string":     {"{{ 'a }}", Error{1, 4, "the string has no closing quote"}},
		"unclosed if":         {"a\n{% if x %}\nb", Error{2, 4, "'if' has no endif"}},
		"unclosed for":        {"{% for x in l %}{% if x %}{% endif %}", Error{1, 4, "'for' has no endfor"}},
		"end without if":      {"{% endif %}", Error{1, 4, "unexpected 'endif'"}},
		"empty expression":    {"{{ }}", Error{1, 4, "expected an expression, found the end of the expression"}},
		"two values":          {"{{ a b }}", Error{1, 6, "expected the end of the expression, found 'b'"}},
		"character":           {"{{ a ? b }}", Error{1, 6, "unexpected character '?'"}},
		"brackets":            {"{{ (a] }}", Error{1, 6, "unexpected ']', expected ')'"}},
		"escape":              {`{{ '\x4' }}`, Error{1, 5, `the escape \x needs 2 hexadecimal digits`}},
		"filter":              {"{{ a|nosuch }}", Error{1, 6, "unknown filter 'nosuch'; the filters are " + names(filters)}},
		"filter argument": {
			"{{ a|round(x=1) }}", Error{1, 6, "filter round: no argument has the name x; the arguments are precision, method"},
		},
		"too many arguments": {"{{ a|upper(1) }}", Error{1, 6, "filter upper: at most 0 arguments are allowed, not 1"}},
		"test":               {"{{ a is nosuch }}", Error{1, 9, "unknown test 'nosuch'; the tests are " + names(tests)}},
		"statement": {
			"a\n  {% macro f() %}", Error{2, 6, "the statement 'macro' is not supported; the statements are for, if, raw and set"},
		},
		"recursive":      {"{% for x in l recursive %}{% endfor %}", Error{1, 15, "recursive loops are not supported"}},
		"star arguments": {"{{ f(*l) }}", Error{1, 6, "arguments with '*' are not supported"}},
		"constant":       {"{% set none = 1 %}", Error{1, 8, "cannot assign to 'none'"}},
		"large integer":  {"{{ 9223372036854775808 }}", Error{1, 4, "the integer is outside of the range of 64 bits"}},
		"invalid UTF-8":  {"a\xff", Error{1, 1, "the template is not valid UTF-8"}},
		"too long":       {strings.Repeat("a", MaxSource+1), Error{1, 1, "the template has 262145 bytes; at most 262144 are allowed"}},
		"nesting": {
			"{{ " + strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200) + " }}", Error{1, 54, "nested more than 100 levels deep"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scope := Scope{Variables: variables(t), Functions: map[string]Function{
				"fail": func(arguments []any) (any, error) { return nil, fmt.Errorf("no claim %v", arguments[0]) },
			}}
			scope.Variables["foreign"] = 1
			err := run(test.template, scope)
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("got error %v, want %v", err, test.want)
			}
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// run returns the error of Parse or Execute.
func run(template string, scope Scope) error {
	parsed, err := Parse(template)
	if err == nil {
		_, err = parsed.Execute(scope)
	}
	return err
}

// TestBudget requires that what would need too much fails before it is done.
func TestBudget(t *testing.T) {
	t.Parallel()
	const (
		steps   = "the budget of steps is exhausted"
		bytes   = "the budget of bytes is exhausted"
		depth   = "expressions or values are nested more than 100 levels deep"
		range64 = "the integer is outside of the range of 64 bits"
	)
	deeper := "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}"
	doubled := "{% set a = ['x'] %}" + strings.Repeat("{% set a = [a, a] %}", 60)
	tests := map[string]struct{ template, want string }{
		"repeated text":            {"{{ 'a' * 10 ** 9 }}", bytes},
		"repeated list":            {"{{ ([1] * 10 ** 12)|length }}", bytes},
		"largest repetition":       {"{{ 'ab' * 9223372036854775807 }}", bytes},
		"range":                    {"{{ range(2 * 10 ** 7)|length }}", bytes},
		"range to the end":         {"{{ range(0, 9223372036854775807, 9223372036854775806)|length }}", ""},
		"power":                    {"{{ 2 ** 10 ** 9 }}", range64},
		"power of one":             {"{{ 1 ** 9223372036854775807 }}", ""},
		"nested loops":             {"{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}{% endfor %}{% endfor %}", bytes},
		"nested loops over a text": {"{% set l = range(500) %}{% for a in l %}{% for b in l %}{% for c in l %}{{ a + b + c }}{% endfor %}{% endfor %}{% endfor %}", bytes},
		"format":                   {"{{ ('%1000d' * 9000) % range(9000) }}", bytes},
		"growing text":             {"{% set ns = namespace(x='x') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", bytes},
		"growing list":             {"{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", bytes},
		"replace":                  {"{{ ('a' * 10000)|replace('a', 'b' * 10000) }}", bytes},
		"replace of nothing":       {"{{ ('a' * 10000).replace('', 'b' * 10000) }}", bytes},
		"join":                     {"{{ range(10000)|join('b' * 10000) }}", bytes},
		"join of a text":           {"{{ ('b' * 10000).join('a' * 10000) }}", bytes},
		"indent":                   {"{{ ('\\n' * 10000)|indent('b' * 10000, true, true) }}", bytes},
		"indent by a number":       {"{{ 'a'|indent(10 ** 12, true) }}", bytes},
		"zfill":                    {"{{ 'a'.zfill(10 ** 12) }}", bytes},
		"tobash":                   {`{{ ("'" * 4000000)|tobash }}`, bytes},
		"tojson indent":            {"{{ [1]|tojson(10 ** 12) }}", bytes},
		"tojson of shared lists":   {doubled + "{{ a|tojson }}", steps},
		"equal shared lists":       {doubled + "{% set b = a %}{{ 1 if a == a + [] }}", steps},
		"order of shared lists":    {doubled + "{{ 1 if a < a + [] }}", steps},
		"shared list to function":  {doubled + "{{ echo(a) }}", steps},
		"search in long texts":     {"{% set a = 'a' * 1000000 %}{% for i in range(1000) %}{{ 1 if 'b' in a else 2 }}{% endfor %}", steps},
		"compare long texts":       {"{% set a = 'a' * 1000000 %}{% set b = 'a' * 1000000 %}{% for i in range(1000) %}{{ 1 if b == a else 2 }}{% endfor %}", steps},
		"count long texts":         {"{% set a = 'a' * 1000000 %}{% for i in range(1000) %}{{ a|length }}{% endfor %}", steps},
		"unique elements":          {"{% set l = [1] * 100000 %}{% for i in range(1000) %}{{ (l|unique)|length }}{% endfor %}", steps},
		"unique long texts":        {"{% set l = ['a' * 1000000] * 1000 %}{{ (l|unique(true))|length }}", steps},
		"long name":                {"{% for i in range(100000) %}{% if " + strings.Repeat("x", 200000) + " %}{% endif %}{% endfor %}", steps},
		"trim":                     {"{% set a = 'b' * 100000 %}{{ ('a' * 100000)|trim(a ~ 'a') }}", steps},
		"deep value to JSON":       {deeper + "{{ ns.x|tojson }}", depth},
		"deep value to function":   {deeper + "{{ echo(ns.x) }}", depth},
		"deep values equal":        {deeper + "{% set a = ns.x %}" + deeper + "{{ 1 if a == ns.x }}", depth},
		"deep values in order":     {deeper + "{% set a = ns.x %}" + deeper + "{{ 1 if a < ns.x }}", depth},
		"deep expression":          {"{{ 1" + strings.Repeat(" + 1", 200) + " }}", depth},
		"deep filters":             {"{{ 1" + strings.Repeat("|abs", 200) + " }}", depth},
		"deep signs":               {"{{ " + strings.Repeat("-", 200) + "1 }}", "nested more than 100 levels deep"},
		"deep not":                 {"{{ " + strings.Repeat("not ", 200) + "1 }}", "nested more than 100 levels deep"},
		"deep lists":               {"{{ " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + " }}", "nested more than 100 levels deep"},
		"deep calls":               {"{{ " + strings.Repeat("f(", 200) + strings.Repeat(")", 200) + " }}", "nested more than 100 levels deep"},
		"deep statements":          {strings.Repeat("{% if 1 %}", 200), "nested more than 100 levels deep"},
		"deep conditions":          {"{{ " + strings.Repeat("1 if 0 else ", 200) + "1 }}", "nested more than 100 levels deep"},
		"deep targets":             {"{% set " + strings.Repeat("(", 200) + "a" + strings.Repeat(")", 200) + " = 1 %}", "nested more than 100 levels deep"},
		"a namespace in itself":    {"{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x|tojson }}", "a namespace cannot be written as JSON"},
		"equal namespaces":         {"{% set a = namespace() %}{% set a.x = a %}{{ 1 if a == a and a.x == a }}", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := run(test.template, Scope{Functions: map[string]Function{
				"echo": func(arguments []any) (any, error) { return "", nil },
			}})
			message := ""
			if failed := (*Error)(nil); errors.As(err, &failed) {
				message = failed.Message
			}
			if diff := cmp.Diff(test.want, message); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSharedBudget requires that templates consume the budget that they share.
func TestSharedBudget(t *testing.T) {
	t.Parallel()
	budget := &Budget{Steps: 1000, Bytes: 250, Depth: 10}
	var errs []bool
	for range 3 {
		errs = append(errs, run("{{ 'a' * 60 }}", Scope{Budget: budget}) != nil)
	}
	if diff := cmp.Diff([]bool{false, false, true}, errs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Budget{Steps: budget.Steps, Bytes: 0, Depth: 10}, *budget); diff != "" || budget.Steps >= 1000 {
		t.Errorf("budget afterwards: %+v", *budget)
	}
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	var called []any
	scope := Scope{Functions: map[string]Function{"get_pvc": func(arguments []any) (any, error) {
		called = arguments
		return map[string]any{"spec": map[string]any{"storage": int64(math.MaxInt64)}}, nil
	}}}
	got := outcome("{{ get_pvc('data', {'a': [1, none]}).spec.storage }} {{ 'y' if get_pvc is defined and get_pvc is callable }}", scope)
	if want := "text: 9223372036854775807 y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if diff := cmp.Diff([]any{"data", map[string]any{"a": []any{int64(1), nil}}}, called); diff != "" {
		t.Error(diff)
	}
}
