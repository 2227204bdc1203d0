// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// notesEnd follows the changes in the notes. Its verbs are the version, the platforms of the kubectl plugin and the images.
const notesEnd = `
## Verify

` + "```" + `
sha256sum --check --ignore-missing SHA256SUMS
git checkout %[1]s && make release %[2]s
diff SHA256SUMS bin/release/%[1]s/SHA256SUMS
` + "```" + `

The second command makes the same files, byte for byte, with Go %[3]s.

## Images

` + "```" + `
%[4]s` + "```" + `
`

// writeNotes writes what the page of the release says.
func (r release) writeNotes(ctx context.Context, images []image) error {
	changes, err := r.changes()
	if err != nil {
		return err
	}
	toolchain, err := r.goVersion(ctx)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, i := range images {
		fmt.Fprintln(&list, i.pinned())
	}
	end := fmt.Sprintf(notesEnd, r.version, strings.Join(r.variables(), " "), strings.TrimPrefix(toolchain, "go"), list.String())
	return os.WriteFile(filepath.Join(r.out, "RELEASE_NOTES.md"), []byte(changes+end), 0o644)
}

// variables are those of make that decide what is in the release.
func (r release) variables() []string {
	list := []string{"VERSION=" + r.version}
	if r.registry != defaultRegistry {
		list = append(list, "REGISTRY="+r.registry)
	}
	if r.downloads != "" {
		list = append(list, "DOWNLOADS="+r.downloads)
	}
	return list
}

// goVersion is that of the compiler, go1.26.8.
func (r release) goVersion(ctx context.Context) (string, error) {
	return r.output(ctx, "go", "env", "GOVERSION")
}
