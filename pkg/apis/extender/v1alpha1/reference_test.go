// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/testing/reference"
)

const (
	// page is the reference page.
	page = "../../../../docs/extender-configuration.md"
	// shipped is the folder of the configurations in manifests.
	shipped = "../../../../manifests/extender/"
)

// TestReferenceNamesEveryField: every field is documented, with its default in the same row.
func TestReferenceNamesEveryField(t *testing.T) {
	t.Parallel()
	defaulted := &ExtenderConfiguration{}
	defaulted.SetDefaults()
	reference.Page{Path: page, Defaulted: defaulted}.Check(t)
}

// TestExamplesAreValid: the examples of the page and of manifests are valid.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	for path, text := range map[string]string{
		page:                             reference.Example(t, page, "```yaml\n"),
		shipped + "full/config.yaml":     reference.Read(t, shipped+"full/config.yaml"),
		shipped + "advisory/config.yaml": reference.Read(t, shipped+"advisory/config.yaml"),
	} {
		c, err := Decode([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if strings.Contains(path, "advisory") != (c.Mode == "Advisory") {
			t.Errorf("%s is of mode %s", path, c.Mode)
		}
	}
}
