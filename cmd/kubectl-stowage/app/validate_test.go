// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/testing/commands"
)

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

// Heads of configurations.
const (
	controllerHead = "apiVersion: controller.config.stowage.dev/v1alpha1\nkind: ControllerConfiguration\n"
	schedulerHead  = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
)

func TestValidate(t *testing.T) {
	folder := filepath.Dir(file(t, "storageClassMap", "fast: {hostDir: /mnt/fast}"))
	broken := filepath.Dir(file(t, "storageClassMap", "fast: {}"))
	for name, test := range map[string]struct {
		path string
		// prints is in the output, or in the error if wrong.
		prints []string
		wrong  bool
	}{
		"the sample":                {path: "../../../manifests/provisioner/configmap.yaml", prints: []string{"configmap.yaml: ConfigMap stowage-provisioner of the provisioner, with 1 class, is valid"}},
		"a folder":                  {path: folder, prints: []string{"the provisioner's folder, with 1 class, is valid"}},
		"a folder with a mistake":   {path: broken, wrong: true, prints: []string{"is not valid:\n  storageClassMap[fast].hostDir"}},
		"a file that is not there":  {path: "/nowhere", wrong: true, prints: []string{"no such file"}},
		"no YAML":                   {path: file(t, "f", "a: b: c"), wrong: true, prints: []string{"f: "}},
		"nothing":                   {path: file(t, "f", "# only a comment\n---\n"), wrong: true, prints: []string{"f: must have a configuration, and is empty"}},
		"another kind":              {path: file(t, "f", "kind: Secret"), wrong: true, prints: []string{`kind: must be one of ConfigMap, ControllerConfiguration, ExtenderConfiguration, KubeSchedulerConfiguration, and is "Secret"`}},
		"a key that no object has":  {path: file(t, "f", configMap("daata: {}")), wrong: true, prints: []string{"daata"}},
		"an unknown key":            {path: file(t, "f", configMap("  minResyncPeriode: 5m")), wrong: true, prints: []string{"minResyncPeriode: Forbidden: unknown key"}},
		"what a reader should know": {path: file(t, "f", configMap("  useNodeNameOnly: \"true\"")), prints: []string{"warning: useNodeNameOnly", "is valid"}},
		"all mistakes at once": {
			path: file(t, "f", configMap("  maxCleaning: \"0\"\n  setPVOwnerRef: \"true\"")), wrong: true,
			prints: []string{"\n  maxCleaning: ", "\n  setPVOwnerRef: Forbidden: must be off"},
		},
		"the controller's sample": {path: "../../../manifests/controller/base/config.yaml", prints: []string{"config.yaml: ControllerConfiguration is valid"}},
		"the extender's samples":  {path: "../../../manifests/extender/full/config.yaml", prints: []string{"ExtenderConfiguration is valid"}},
		"the scheduler's sample":  {path: "../../../manifests/scheduler/second/config.yaml", prints: []string{"KubeSchedulerConfiguration is valid"}},
		"mistakes of the controller": {
			path: file(t, "f", controllerHead+"nodeLoss: {policy: keep, releasesPerMinute: 0}"), wrong: true,
			prints: []string{"f: ControllerConfiguration is not valid:\n  nodeLoss.policy: Unsupported value", "\n  nodeLoss.releasesPerMinute: "},
		},
		"an unknown field of the controller": {path: file(t, "f", controllerHead+"colour: red"), wrong: true, prints: []string{`unknown field "colour"`}},
		"another version of the extender": {
			path: file(t, "f", "apiVersion: extender.config.stowage.dev/v1\nkind: ExtenderConfiguration\n"), wrong: true,
			prints: []string{`apiVersion: must be extender.config.stowage.dev/v1alpha1, and is "extender.config.stowage.dev/v1"`},
		},
		"mistakes of the scheduler": {
			path: file(t, "f", schedulerHead+"profiles:\n- pluginConfig:\n  - {name: VolumeTopology, args: {bindingMode: Half}}\n"), wrong: true, prints: []string{"bindingMode: Unsupported value"},
		},
		"the plugin beside the one that it replaces": {
			path: file(t, "f", schedulerHead+"profiles:\n- plugins: {multiPoint: {enabled: [{name: VolumeTopology}]}}\n"), wrong: true, prints: []string{"enables both VolumeTopology and VolumeBinding"},
		},
		"two documents, the second one wrong": {
			path: file(t, "f", controllerHead+"---\n"+controllerHead+"healthAddress: a"), wrong: true, prints: []string{"f: ControllerConfiguration is valid\n", "healthAddress: "},
		},
		"the ConfigMap of the controller": {
			path: file(t, "f", "kind: ConfigMap\nmetadata: {name: a}\ndata:\n  config.yaml: |\n    apiVersion: controller.config.stowage.dev/v1alpha1\n    kind: ControllerConfiguration\n    nodeLoss: {policy: a}\n"), wrong: true,
			prints: []string{"ConfigMap a, key config.yaml, ControllerConfiguration is not valid:\n  nodeLoss.policy: "},
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
			out, err := commands.Output(t, newValidateCommand(), test.path)
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
