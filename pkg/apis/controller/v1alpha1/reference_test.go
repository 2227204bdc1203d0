// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	"stowage.dev/stowage/pkg/testing/reference"
)

const (
	// page is the reference page.
	page = "../../../../docs/controller-configuration.md"
	// shipped is the configuration in manifests.
	shipped = "../../../../manifests/controller/base/config.yaml"
)

// TestReferenceNamesEveryField: every field is documented, with its default in the same row.
func TestReferenceNamesEveryField(t *testing.T) {
	t.Parallel()
	defaulted := &ControllerConfiguration{}
	defaulted.SetDefaults()
	reference.Page{Path: page, Defaulted: defaulted}.Check(t)
}

// TestExamplesAreValid: the examples of the page and of manifests are valid.
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
