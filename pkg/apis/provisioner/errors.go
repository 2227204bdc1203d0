// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is an error or a warning about a field of a configuration.
type Finding struct {
	// Field is the path to the field as users write it: the ConfigMap's key first,
	// names that users chose in brackets ("storageClassMap[fast].hostDir").
	Field string
	// Message has the problem, and what is allowed.
	Message string
}

func (f Finding) String() string { return f.Field + ": " + f.Message }

// Errors are the errors of a configuration, up to maxFindings; at least one.
type Errors []Finding

// Error has one line for each finding.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, finding := range e {
		lines[i] = finding.String()
	}
	return strings.Join(lines, "\n")
}

// Limits of what users can read. A configuration with very many errors, or of another format,
// must not exhaust memory.
const (
	maxFindings     = 100
	maxFindingBytes = 2000
)

// failf adds a finding about n.
func (n node) failf(format string, args ...any) {
	finding := Finding{Field: clip(n.path.String()), Message: clip(fmt.Sprintf(format, args...))}
	switch {
	case len(*n.errs) < maxFindings:
	case len(*n.errs) == maxFindings:
		finding.Message = "more errors from here on were omitted"
	default:
		return
	}
	*n.errs = append(*n.errs, finding)
}

func clip(text string) string {
	if len(text) <= maxFindingBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxFindingBytes], "") + "..."
}

// at reports whether there is a finding at a key of the ConfigMap or within it.
func (e *Errors) at(key string) bool {
	return slices.ContainsFunc(*e, func(finding Finding) bool {
		rest, found := strings.CutPrefix(finding.Field, key)
		return found && (rest == "" || rest[0] == '[' || rest[0] == '.')
	})
}
