// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"stowage.dev/stowage/pkg/testing/reference"
)

// page is the reference page.
const page = "../../../../docs/configuration.md"

// TestReferenceNamesEveryField: every field is documented, with
// its default in the same row.
func TestReferenceNamesEveryField(t *testing.T) {
	t.Parallel()
	defaulted := &VolumeTopologyArgs{}
	SetObjectDefaults_VolumeTopologyArgs(defaulted)
	reference.Page{Path: page, Defaulted: defaulted}.Check(t)
}

// TestReferenceExampleIsValid: the example of the page is valid.
func TestReferenceExampleIsValid(t *testing.T) {
	t.Parallel()
	example := reference.Example(t, page, "  - name: VolumeTopology\n    args:\n")
	if _, err := DecodeArgs(&runtime.Unknown{Raw: []byte(example), ContentType: runtime.ContentTypeYAML}); err != nil {
		t.Errorf("the example of %s: %v", page, err)
	}
}
