// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// run runs a command and returns its output, including errors.
func run(t *testing.T, cmd *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	cmd.SetContext(t.Context())
	err := cmd.Execute()
	return out.String(), err
}

// file writes a file, and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// configMap is a manifest with one class and further keys.
func configMap(keys string) string {
	return `
apiVersion: v1
kind: ConfigMap
metadata: {name: stowage-provisioner, namespace: stowage-system}
data:
  storageClassMap: |
    fast: {hostDir: /mnt/fast}
` + keys
}

func TestValidate(t *testing.T) {
	folder := filepath.Dir(file(t, "storageClassMap", "fast: {hostDir: /mnt/fast}"))
	broken := filepath.Dir(file(t, "storageClassMap", "fast: {}"))
	for name, test := range map[string]struct {
		path string
		// prints is in the output, or in the error if wrong.
		prints []string
		wrong  bool
	}{
		"the sample":                {path: "../../../manifests/provisioner/configmap.yaml", prints: []string{"is valid, with 1 class"}},
		"a folder":                  {path: folder, prints: []string{"is valid"}},
		"a folder with a mistake":   {path: broken, wrong: true, prints: []string{"is not valid", "storageClassMap[fast].hostDir"}},
		"a file that is not there":  {path: "/nowhere", wrong: true, prints: []string{"no such file"}},
		"no YAML":                   {path: file(t, "f", "a: b: c"), wrong: true, prints: []string{"read the ConfigMap in"}},
		"another kind":              {path: file(t, "f", "kind: Secret"), wrong: true, prints: []string{`kind "Secret"`}},
		"a key that no object has":  {path: file(t, "f", configMap("daata: {}")), wrong: true, prints: []string{"daata"}},
		"an unknown key":            {path: file(t, "f", configMap("  minResyncPeriode: 5m")), wrong: true, prints: []string{"minResyncPeriode: Forbidden: unknown key"}},
		"what a reader should know": {path: file(t, "f", configMap("  useNodeNameOnly: \"true\"")), prints: []string{"warning: useNodeNameOnly", "is valid"}},
		"all mistakes at once": {
			path: file(t, "f", configMap("  maxCleaning: \"0\"\n  setPVOwnerRef: \"true\"")), wrong: true,
			prints: []string{"maxCleaning: ", "setPVOwnerRef: Forbidden: must be off"},
		},
		"the reference's, as kubectl prints it": {
			path: file(t, "f", `
apiVersion: v1
data:
  storageClassMap: |
    fast-disks:
       hostDir: /mnt/fast-disks
       mountDir: /mnt/fast-disks
       blockCleanerCommand:
         - "/scripts/shred.sh"
         - "2"
       volumeMode: Filesystem
       fsType: ext4
       namePattern: "*"
kind: ConfigMap
metadata:
  annotations: {meta.helm.sh/release-name: local-static-provisioner}
  creationTimestamp: "2026-01-02T03:04:05Z"
  name: local-provisioner-config
  namespace: kube-system
  resourceVersion: "7"
  uid: 6b9a1c1e-0000-4000-8000-0123456789ab
`), prints: []string{"is valid"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, newValidateCommand(), test.path)
			if (err != nil) != test.wrong {
				t.Fatalf("error %v, want one: %t", err, test.wrong)
			}
			if err != nil {
				out += err.Error()
			}
			for _, part := range test.prints {
				if !strings.Contains(out, part) {
					t.Errorf("it does not print %q:\n%s", part, out)
				}
			}
		})
	}
}
