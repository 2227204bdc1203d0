// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import "strings"

// Finding is something to tell about a field of a configuration.
type Finding struct {
	// Field is the path to the field as users write it: the ConfigMap's key first,
	// names that users chose in brackets ("storageClassMap[fast].hostDir").
	Field string
	// Message says what is wrong with it, and what is allowed.
	Message string
}

func (f Finding) String() string { return f.Field + ": " + f.Message }

// Errors are all that is wrong with a configuration; never empty when it is an
// error.
type Errors []Finding

// Error has one line for each finding.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, finding := range e {
		lines[i] = finding.String()
	}
	return strings.Join(lines, "\n")
}
