// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"maps"
	"slices"
)

// Routine describes a filter, test, function or method, for docs/pav-reference.md.
type Routine struct {
	Name string
	// Parameters are the names of the parameters in their order; those from Required on are optional.
	Parameters []string
	Required   int
	// Open routines accept more arguments than they have parameters.
	Open    bool
	Meaning string
}

// Reference describes what templates can use, sorted by name.
type Reference struct {
	Filters, Tests, Functions                            []Routine
	StringMethods, DictMethods, ListMethods, LoopMethods []Routine
	// LoopAttributes are those of the variable loop, which have no parameters.
	LoopAttributes []Routine
}

// Describe returns the description of the language.
func Describe() Reference {
	var attributes []Routine
	for _, name := range slices.Sorted(maps.Keys(loopAttributeMeanings)) {
		attributes = append(attributes, Routine{Name: name, Meaning: loopAttributeMeanings[name]})
	}
	return Reference{
		Filters: described(filters, filterMeanings), Tests: described(tests, testMeanings), Functions: described(globals, functionMeanings),
		StringMethods: described(stringMethods, stringMeanings), DictMethods: described(dictMethods, dictMeanings),
		ListMethods: described(listMethods, listMeanings), LoopMethods: described(loopMethods, loopMeanings),
		LoopAttributes: attributes,
	}
}

func described(routines map[string]routine, meanings map[string]string) []Routine {
	var all []Routine
	for _, name := range slices.Sorted(maps.Keys(routines)) {
		r := routines[name]
		all = append(all, Routine{Name: name, Parameters: r.parameters, Required: r.required, Open: r.open, Meaning: meanings[name]})
	}
	return all
}

var filterMeanings = map[string]string{
	"abs":        "the absolute value of a number",
	"capitalize": "the text with a capital first letter and lower case after it",
	"count":      "as `length`",
	"d":          "as `default`",
	"default":    "the value, or `default_value` (empty text) if it is undefined; with `boolean` also if it is false, empty or none",
	"dictsort":   "the entries of a dict as a list of `[key, value]`, sorted by `by` (`key` or `value`)",
	"first":      "the first element",
	"float":      "the value as a floating-point number, or `default` (0.0) if it is not a number",
	"format":     "the text with the conversions of printf (`%s`, `%d`) replaced by the arguments",
	"indent":     "the text with its lines indented by `width` (4) spaces; the first and blank lines only with `first` and `blank`",
	"int":        "the value as an integer, or `default` (0) if it is not a number; `base` (10) is that of a text",
	"items":      "the entries of a dict as a list of `[key, value]`",
	"join":       "the elements as one text, with `d` between them; of each its `attribute` if that is given",
	"last":       "the last element",
	"length":     "the number of characters, elements or entries",
	"list":       "the elements as a list: characters of a text, keys of a dict",
	"lower":      "the text in lower case",
	"map":        "the list with the filter that the first argument names applied to each element, or with `attribute=` of each element",
	"max":        "the greatest element",
	"min":        "the least element",
	"reject":     "the elements for which the test that the first argument names is false; without an argument, those that are false",
	"rejectattr": "as `reject`, for the elements' `attribute`",
	"replace":    "the text with `old` replaced by `new`, `count` times at most",
	"reverse":    "the text or list in reverse order",
	"round":      "the number rounded to `precision` (0) places by `method` (`common`, `ceil` or `floor`)",
	"select":     "the elements for which the test that the first argument names is true; without an argument, those that are true",
	"selectattr": "as `select`, for the elements' `attribute`",
	"sort":       "the elements, sorted",
	"string":     "the number or text as text",
	"sum":        "the sum of the elements and `start` (0)",
	"title":      "the text with a capital first letter in each word",
	"tobash":     "the text or number quoted as one word of a shell",
	"tojson":     "the value as JSON, which is YAML, too; also for values that have no text; `<`, `>`, `&` and `'` are escaped",
	"trim":       "the text without spaces, or characters of `chars`, at both ends",
	"unique":     "the elements, each once",
	"upper":      "the text in upper case",
}

var testMeanings = map[string]string{
	"!=": "as `ne`", "<": "as `lt`", "<=": "as `le`", "==": "as `eq`", ">": "as `gt`", ">=": "as `ge`",
	"boolean":     "is true or false",
	"callable":    "is a function",
	"defined":     "is defined",
	"divisibleby": "is divisible by `num`",
	"eq":          "equals `other`",
	"equalto":     "as `eq`",
	"even":        "is an even number",
	"false":       "is false",
	"filter":      "is the name of a filter",
	"float":       "is a floating-point number",
	"ge":          "is greater than or equal to `other`",
	"greaterthan": "as `gt`",
	"gt":          "is greater than `other`",
	"in":          "is an element of `seq`, a key of it, or a part of its text",
	"integer":     "is an integer",
	"iterable":    "is a text, list, dict or undefined",
	"le":          "is less than or equal to `other`",
	"lessthan":    "as `lt`",
	"lower":       "is text in lower case",
	"lt":          "is less than `other`",
	"mapping":     "is a dict",
	"ne":          "does not equal `other`",
	"none":        "is none, null in YAML",
	"number":      "is an integer or a floating-point number",
	"odd":         "is an odd number",
	"sameas":      "is the same value as `other`",
	"sequence":    "as `iterable`",
	"string":      "is text",
	"test":        "is the name of a test",
	"true":        "is true",
	"undefined":   "is undefined",
	"upper":       "is text in upper case",
}

var functionMeanings = map[string]string{
	"dict":      "a dict of the entries of `base` and the named arguments",
	"namespace": "as `dict`, with entries that `set` can assign, also in a loop",
	"range":     "the integers from `start` (0) to before `stop`, with a distance of `step` (1); one argument is `stop`",
}

var stringMeanings = map[string]string{
	"capitalize":   "as the filter",
	"count":        "how often it has `sub`",
	"endswith":     "whether it ends with `suffix`, or one of a list",
	"find":         "position of `sub`, or -1",
	"isalnum":      "whether all characters are letters or digits",
	"isalpha":      "whether all characters are letters",
	"isdigit":      "whether all characters are digits",
	"join":         "the elements of `iterable` as one text, with this text between them",
	"lower":        "as the filter",
	"lstrip":       "without spaces, or characters of `chars`, at the beginning",
	"partition":    "the text before the first `sep`, `sep`, and the text after it",
	"removeprefix": "without `prefix`",
	"removesuffix": "without `suffix`",
	"replace":      "as the filter",
	"rfind":        "last position of `sub`, or -1",
	"rpartition":   "as `partition`, with the last `sep`",
	"rsplit":       "as `split`, from the end",
	"rstrip":       "without spaces, or characters of `chars`, at the end",
	"split":        "the parts between `sep`, or spaces; `maxsplit` limits how often it is split",
	"splitlines":   "the lines, with their ends if `keepends` is true",
	"startswith":   "whether it begins with `prefix`, or one of a list",
	"strip":        "without spaces, or characters of `chars`, at both ends",
	"upper":        "as the filter",
	"zfill":        "with zeros at the beginning, to `width` characters",
}

var dictMeanings = map[string]string{
	"get":    "the value of `key`, or `default` (none)",
	"items":  "the entries as a list of `[key, value]`",
	"keys":   "the keys",
	"values": "the values",
}

var listMeanings = map[string]string{
	"count": "how often it has `value`",
	"index": "position of `value`, an error if it is not in the list",
}

var loopMeanings = map[string]string{
	"changed": "whether the arguments differ from those of the last call",
	"cycle":   "one of the arguments, the next one in each round",
}

var loopAttributeMeanings = map[string]string{
	"depth":     "1, also in an inner loop",
	"depth0":    "0",
	"first":     "whether it is the first round",
	"index":     "number of the round, from 1",
	"index0":    "number of the round, from 0",
	"last":      "whether it is the last round",
	"length":    "number of rounds",
	"nextitem":  "the element of the next round; undefined in the last one",
	"previtem":  "the element of the previous round; undefined in the first one",
	"revindex":  "number of rounds until the end, this one included",
	"revindex0": "number of rounds after this one",
}
