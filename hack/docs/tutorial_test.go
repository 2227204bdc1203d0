// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"
)

var patch = regexp.MustCompile(`kubectl patch .* -p '(.*)'`)

// TestTutorial: the page has the provisioner of the example, and the end-to-end test makes its mistakes.
func TestTutorial(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/pav-tutorial.md")
	_, spec, _ := strings.Cut(read(t, "manifests/pav/examples/hello-world.yaml"), "\nspec:\n")
	if spec == "" || !strings.Contains(page, "```yaml\nspec:\n"+spec+"```\n") {
		t.Errorf("the page does not have the spec of the example:\n%s", spec)
	}
	patches := patch.FindAllStringSubmatch(page, -1)
	if len(patches) < 2 {
		t.Errorf("the page has %d patches, want the mistake in a template and the one in a script", len(patches))
	}
	e2e := read(t, "test/e2e/staging_examples_test.go")
	for _, found := range patches {
		if !strings.Contains(e2e, found[1]) {
			t.Errorf("the end-to-end test does not apply the patch %s", found[1])
		}
	}
}
