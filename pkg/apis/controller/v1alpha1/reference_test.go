// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	"stowage.dev/stowage/pkg/testing/reference"
)

const (
	// page is where users look fields up.
	page = "../../../../docs/controller-configuration.md"
	// shipped is the configuration that users copy.
	shipped = "../../../../manifests/controller/base/config.yaml"
)

// TestReferenceNamesEveryField: a field that is added is also documented, with its
// default in the same row.
func TestReferenceNamesEveryField(t *testing.T) {
	t.Parallel()
	defaulted := &ControllerConfiguration{}
	setDefaults(defaulted)
	reference.Page{Path: page, Defaulted: defaulted}.Check(t)
}

// TestExamplesAreValid: what users copy works, from the page and from manifests.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	for path, text := range map[string]string{
		page:    reference.Example(t, page, "```yaml\n"),
		shipped: reference.Read(t, shipped),
	} {
		if _, err := Decode([]byte(text)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
