// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"stowage.dev/stowage/pkg/testing/reference"
)

// page is where users look fields up.
const page = "../../../../docs/configuration.md"

// TestReferenceNamesEveryField: a field that is added is also documented, with
// its default in the same row.
func TestReferenceNamesEveryField(t *testing.T) {
	t.Parallel()
	defaulted := &VolumeTopologyArgs{}
	SetObjectDefaults_VolumeTopologyArgs(defaulted)
	reference.Page{Path: page, Defaulted: defaulted}.Check(t)
}

// TestReferenceExampleIsValid: what users copy works.
func TestReferenceExampleIsValid(t *testing.T) {
	t.Parallel()
	example := reference.Example(t, page, "  - name: VolumeTopology\n    args:\n")
	if _, err := DecodeArgs(&runtime.Unknown{Raw: []byte(example), ContentType: runtime.ContentTypeYAML}); err != nil {
		t.Errorf("the example of %s: %v", page, err)
	}
}
