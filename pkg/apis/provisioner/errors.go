// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is something to tell about a field of a configuration.
type Finding struct {
	// Field is the path to the field as users write it: the ConfigMap's key first,
	// names that users chose in brackets ("storageClassMap[fast].hostDir").
	Field string
	// Message says what is wrong with it, and what is allowed.
	Message string
}

func (f Finding) String() string { return f.Field + ": " + f.Message }

// Errors are all that is wrong with a configuration, up to maxFindings; never
// empty when it is an error.
type Errors []Finding

// Error has one line for each finding.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, finding := range e {
		lines[i] = finding.String()
	}
	return strings.Join(lines, "\n")
}

// What users can be expected to read. A configuration that is wrong from top to
// bottom, or holds something else altogether, must not fill the memory.
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
		finding.Message = "and more from here on, which is left out"
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

// at says whether something was found at a key of the ConfigMap or within it.
func (e *Errors) at(key string) bool {
	return slices.ContainsFunc(*e, func(finding Finding) bool {
		rest, found := strings.CutPrefix(finding.Field, key)
		return found && (rest == "" || rest[0] == '[' || rest[0] == '.')
	})
}
