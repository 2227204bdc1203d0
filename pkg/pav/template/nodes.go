// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package template

// statement is a part of a template's body.
type statement interface {
	exec(e *evaluator)
}

// expression is a node that has a value.
type expression interface {
	eval(e *evaluator) any
	// position is the byte offset in the source that errors name.
	position() int
}

// at is the position of a node.
type at int

func (a at) position() int { return int(a) }

type (
	textNode  string
	printNode struct{ value expression }
	ifNode    struct {
		branches  []branch
		otherwise []statement
	}
	branch struct {
		test expression
		body []statement
	}
	forNode struct {
		target          target
		iterable        expression
		filter          expression // nil if all elements are visited
		body, otherwise []statement
	}
	setNode struct {
		target target
		value  expression
	}
	// setBlockNode assigns what its body prints.
	setBlockNode struct {
		target  target
		body    []statement
		filters []*filterNode // applied in order; their operand is the text
	}
	// target is what a value is assigned to: a name, an attribute of a namespace, or targets
	// for each element.
	target struct {
		at
		name, attribute string
		elements        []target
	}
)

type (
	constNode struct {
		at
		value any
	}
	nameNode struct {
		at
		name string
	}
	attributeNode struct {
		at
		object expression
		name   string
	}
	itemNode struct {
		at
		object, index expression
	}
	sliceNode struct {
		at
		object            expression
		start, stop, step expression // nil where left out
	}
	listNode struct {
		at
		elements []expression
	}
	dictNode struct {
		at
		keys, values []expression
	}
	notNode struct {
		at
		operand expression
	}
	signNode struct {
		at
		negative bool
		operand  expression
	}
	binaryNode struct {
		at
		operator    string
		left, right expression
	}
	// logicNode is and, or if or is set.
	logicNode struct {
		at
		or          bool
		left, right expression
	}
	compareNode struct {
		at
		first    expression
		operands []operand
	}
	operand struct {
		at
		operator string // as in the source; "not in" with one space
		value    expression
	}
	concatNode struct {
		at
		parts []expression
	}
	conditionNode struct {
		at
		test, then, otherwise expression // otherwise may be nil
	}
	callNode struct {
		at
		callee    expression
		arguments argumentNodes
	}
	filterNode struct {
		at
		operand   expression
		name      string
		arguments argumentNodes
	}
	testNode struct {
		at
		operand   expression
		name      string
		arguments argumentNodes
		negated   bool
	}
	argumentNodes struct {
		positional []expression
		names      []string
		named      []expression // one for each of names
	}
)

// path returns the source of an expression that names a value, or "": params.location.
func path(x expression) string {
	switch n := x.(type) {
	case *nameNode:
		return n.name
	case *attributeNode:
		if object := path(n.object); object != "" {
			return object + "." + n.name
		}
	case *itemNode:
		object := path(n.object)
		key, ok := n.index.(*constNode)
		if !ok || object == "" {
			return ""
		}
		switch k := key.value.(type) {
		case string:
			return object + "['" + k + "']"
		case int64:
			return object + "[" + formatInt(k) + "]"
		}
	}
	return ""
}
