// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRefuse: errors in a ConfigMap that has a valid class.
func TestRefuse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		data map[string]string
		want []string
	}{
		"a key of the chart instead of the ConfigMap": {map[string]string{"nodeLabels": "- a"}, []string{
			"nodeLabels: Forbidden: unknown key: allowed are storageClassMap, nodeLabelsForPV, labelsForPV, useAlphaAPI, useJobForCleaning, jobTolerations, minResyncPeriod, useNodeNameOnly, setPVOwnerRef, removeNodeNotReadyTaint, provisionerNotReadyNodeTaintKey, maxCleaning, maxBlankProofs, blankProofRate, orphanGracePeriod, listDisks, probeTimeout, diskHealth",
		}},
		"an unknown key without a value": {map[string]string{"storageclassmap": ""}, []string{
			"storageclassmap: Forbidden: unknown key: write storageClassMap",
		}},
		"a key in the wrong case": {map[string]string{"storageclassmap": "{}"}, []string{
			"storageclassmap: Forbidden: unknown key: write storageClassMap",
		}},

		"the alpha API": {map[string]string{"useAlphaAPI": "true"}, []string{
			"useAlphaAPI: Forbidden: must be off: nothing reads the annotation volume.alpha.kubernetes.io/node-affinity since Kubernetes 1.10. Remove this key: volumes always have spec.nodeAffinity",
		}},
		"cleaning Jobs, sometimes": {map[string]string{"useJobForCleaning": "sometimes"}, []string{
			`useJobForCleaning: Invalid value: "sometimes": must be true or false`,
		}},
		"volumes that the Node object owns": {map[string]string{"setPVOwnerRef": "true"}, []string{
			"setPVOwnerRef: Forbidden: must be off: deleting a Node object would delete its volumes, though the node may come back with the data of their claims. Remove this key; for a node that will not return, use kubectl stowage release",
		}},
		"a switch that is a word in quotes": {map[string]string{"useNodeNameOnly": `"true"`}, []string{
			`useNodeNameOnly: Invalid value: "true": must be true or false`,
		}},

		"a class name that YAML converts": {map[string]string{classMapKey: "y: {hostDir: /mnt/a}"}, []string{
			"storageClassMap[true]: Forbidden: cannot be a name, because YAML reads y, yes and on as true",
		}},
		"labels": {map[string]string{
			"nodeLabelsForPV": "[a b, stowage.dev/node, 7]",
			"labelsForPV":     "{stowage.dev/x: a, '-': b, v: 'a b', n: a, version: 1.10}",
		}, []string{
			`labelsForPV[-]: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			"labelsForPV[false]: Forbidden: cannot be a name, because YAML reads n, no and off as false",
			"labelsForPV[stowage.dev/x]: Forbidden: labels that begin with stowage.dev/ are reserved for the provisioner: choose another key than stowage.dev/x",
			`labelsForPV[v]: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
			"labelsForPV[version]: Invalid value: 1.1: must be a string: put it in quotes",
			`nodeLabelsForPV[0]: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			"nodeLabelsForPV[1]: Forbidden: labels that begin with stowage.dev/ are reserved for the provisioner: choose another key than stowage.dev/node",
			"nodeLabelsForPV[2]: Invalid value: 7: must be a string: put it in quotes",
		}},
		"labels of another shape": {map[string]string{"nodeLabelsForPV": "a: b", "labelsForPV": "[a]"}, []string{
			"labelsForPV: Invalid value: must be a map",
			"nodeLabelsForPV: Invalid value: must be a list, each item on a line of its own after a dash",
		}},
		"tolerations": {map[string]string{"jobTolerations": "- {key: a, operater: Exists}\n- {operator: exists}\n- {effect: NoSchedule}\n- {key: a b}\n-\n- a\n- {key: a, tolerationSeconds: soon}"}, []string{
			"jobTolerations[0].operater: Forbidden: unknown key: allowed are key, operator, value, effect, tolerationSeconds",
			"jobTolerations[1].key: Required value: only operator Exists needs none",
			`jobTolerations[1].operator: Unsupported value: "exists": supported values: "Equal", "Exists", "Gt", "Lt"`,
			"jobTolerations[2].key: Required value: only operator Exists needs none",
			`jobTolerations[3].key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			"jobTolerations[4].key: Required value: only operator Exists needs none",
			`jobTolerations[5]: Invalid value: "a": must be a map`,
			`jobTolerations[6].tolerationSeconds: Invalid value: "soon": must be a whole number`,
		}},
		"an invalid rate": {map[string]string{"blankProofRate": "fast", "maxBlankProofs": "65"}, []string{
			`blankProofRate: Invalid value: "fast": must be a number of bytes, such as 200Mi`,
			"maxBlankProofs: Invalid value: 65: must be 1 to 64",
		}},
		"a rate below all disks": {map[string]string{"blankProofRate": "1000"}, []string{
			`blankProofRate: Invalid value: "1k": must be from 1Mi to 1Ti bytes`,
		}},
		"health of disks": {map[string]string{"diskHealth": "{hungAfter: 1s, degradedErrors: 5, failingErrors: 4}"}, []string{
			"diskHealth.failingErrors: Invalid value: 4: must be at least degradedErrors, which is 5",
			`diskHealth.hungAfter: Invalid value: "1s": must be 5s to 10m0s`,
		}},
		"an unknown key of the health of disks": {map[string]string{"diskHealth": "{enable: true}"}, []string{
			"diskHealth.enable: Forbidden: unknown key: allowed are enabled, hungAfter, degradedErrors, failingErrors",
		}},
		"numbers of errors out of bounds": {map[string]string{"diskHealth": "{degradedErrors: 0, failingErrors: 1000001}"}, []string{
			"diskHealth.degradedErrors: Invalid value: 0: must be 1 to 1000000",
			"diskHealth.failingErrors: Invalid value: 1000001: must be 1 to 1000000",
		}},
		"numbers out of bounds": {map[string]string{"maxCleaning": "0", "probeTimeout": "1h", "minResyncPeriod": "10ms", "orphanGracePeriod": "0s"}, []string{
			"maxCleaning: Invalid value: 0: must be 1 to 64",
			`minResyncPeriod: Invalid value: "10ms": must be 1s to 24h0m0s`,
			`orphanGracePeriod: Invalid value: "0s": must be 1s to 720h0m0s`,
			`probeTimeout: Invalid value: "1h0m0s": must be 1s to 10m0s`,
		}},
		"a taint that is not named": {map[string]string{removeTaintKey: "true", taintKeyKey: `""`}, []string{
			"provisionerNotReadyNodeTaintKey: Required value: must be the key of the startup taint, because removeNodeNotReadyTaint is on",
		}},
		"a taint with its value is reported once": {map[string]string{removeTaintKey: "true", taintKeyKey: "a=b"}, []string{
			`provisionerNotReadyNodeTaintKey: Invalid value: "a=b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := classMap("fast: {hostDir: /mnt/fast}")
			maps.Copy(data, test.data)
			if diff := cmp.Diff(test.want, refused(t, data)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRefuseClassMap: errors of the classes as a whole.
func TestRefuseClassMap(t *testing.T) {
	t.Parallel()
	const none = "storageClassMap: Required value: must have at least one storage class: without one, the provisioner finds no disk"
	tests := map[string]struct {
		yaml string
		want []string
	}{
		"nothing":   {"", []string{none}},
		"a comment": {"# none yet\n", []string{none}},
		"no class":  {"{}", []string{none}},
		"a list": {"- fast", []string{
			"storageClassMap: Invalid value: must be a map",
		}},
		"an invalid class": {"fast: /mnt/fast", []string{
			`storageClassMap[fast]: Invalid value: "/mnt/fast": must be a map`,
		}},
		"an empty class": {"fast:", []string{
			"storageClassMap[fast].hostDir: Required value: must be the folder on the node where the disks of this class are found",
		}},
		"a class that is no StorageClass": {"Fast_disks: {hostDir: /mnt/fast}", []string{
			`storageClassMap[Fast_disks]: Invalid value: "Fast_disks": cannot be the name of a StorageClass: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		}},
		"invalid YAML": {"fast: [", []string{
			"storageClassMap: Invalid value: not valid YAML: line 1: did not find expected node content",
		}},
		"repeated keys, each reported": {"fast:\n  hostDir: /a\n  hostDir: /b\nfast: {}\n", []string{
			`storageClassMap: Invalid value: not valid YAML: unmarshal errors: line 3: key "hostDir" already set in map line 4: key "fast" already set in map`,
		}},
		"a second document, which the decoder would not see": {"fast: {hostDir: /a}\n---\nslow: {hostDir: /b}\n", []string{
			"storageClassMap: Invalid value: must be one YAML document: remove the separators (--- and ...)",
		}},
		"something after the end": {"fast: {hostDir: /a}\n...\nslow: {hostDir: /b}\n", []string{
			"storageClassMap: Invalid value: must be one YAML document: remove the separators (--- and ...)",
		}},
		"two classes for one folder": {"a: {hostDir: /mnt/disks, namePattern: a*}\nb: {hostDir: /mnt/disks/, namePattern: b*}", []string{
			`storageClassMap[b].hostDir: Invalid value: "/mnt/disks": is the hostDir of class a too: both would find the same disks. Give each class its own folder, and link or mount its disks there`,
		}},
		"folders in folders, but not those with longer names": {"a: {hostDir: /mnt/disks}\nb: {hostDir: /mnt/disks/b/c}\nc: {hostDir: /mnt/disks-other}\nd: {hostDir: /mnt/disks-other/d}", []string{
			`storageClassMap[b].hostDir: Invalid value: "/mnt/disks/b/c": is in /mnt/disks, the hostDir of class a: both would find the same disks. Give each class its own folder, and link or mount its disks there`,
			`storageClassMap[d].hostDir: Invalid value: "/mnt/disks-other/d": is in /mnt/disks-other, the hostDir of class c: both would find the same disks. Give each class its own folder, and link or mount its disks there`,
		}},
		"a folder that contains that of an earlier class": {"a: {hostDir: /mnt/disks/a}\nb: {hostDir: /mnt}", []string{
			`storageClassMap[a].hostDir: Invalid value: "/mnt/disks/a": is in /mnt, the hostDir of class b: both would find the same disks. Give each class its own folder, and link or mount its disks there`,
		}},
		"a mountDir in another's, whose hostDirs are apart": {"a: {hostDir: /mnt/a, mountDir: /local/a}\nb: {hostDir: /mnt/b, mountDir: /local}", []string{
			`storageClassMap[a].mountDir: Invalid value: "/local/a": is in /local, the mountDir of class b: the provisioner would find the same disks for both. Mount each hostDir at its own path in the provisioner's pod`,
		}},
		"two folders that are one in the pod": {"a: {hostDir: /mnt/a, mountDir: /local}\nb: {hostDir: /mnt/b, mountDir: /local}", []string{
			`storageClassMap[b].mountDir: Invalid value: "/local": is the mountDir of class a too: the provisioner would find the same disks for both. Mount each hostDir at its own path in the provisioner's pod`,
		}},
		"all at once": {"a: {hostDir: a, fsTyp: ext4}\nb: {volumeMode: block, blockCleanerCommand: [x]}", []string{
			"storageClassMap[a].fsTyp: Forbidden: unknown key: allowed are " + allowedInClass,
			`storageClassMap[a].hostDir: Invalid value: "a": must be an absolute path`,
			`storageClassMap[b].blockCleanerCommand: Invalid value: "x": is neither a built-in method (fs-reset, zero, blkdiscard, dd-zero, shred, hdparm) nor a program: programs are named by an absolute path without . and ..`,
			"storageClassMap[b].hostDir: Required value: must be the folder on the node where the disks of this class are found",
			`storageClassMap[b].volumeMode: Unsupported value: "block": supported values: "Block", "Filesystem"`,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, refused(t, classMap(test.yaml))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("no data", func(t *testing.T) {
		t.Parallel()
		if got := strings.Join(refused(t, nil), "\n"); got != none {
			t.Errorf("got %s", got)
		}
	})
}

// TestPrefixTwinsDoNotOverlap: /mnt/disks does not contain /mnt/disks-other.
func TestPrefixTwinsDoNotOverlap(t *testing.T) {
	t.Parallel()
	_, err := Decode(classMap("a: {hostDir: /mnt/disks}\nb: {hostDir: /mnt/disks-other}\nc: {hostDir: /mnt/disk}\n" +
		"d: {hostDir: /other, mountDir: /mnt/disks2}"))
	if err != nil {
		t.Error(err)
	}
}

// TestRefuseWithinMeasure: very many errors, or another format, are rejected quickly and with a
// limited number of findings.
func TestRefuseWithinMeasure(t *testing.T) {
	t.Parallel()
	const much = 1 << 17
	var same strings.Builder
	for i := range much / 25 {
		fmt.Fprintf(&same, "c%d: {hostDir: /mnt/a}\n", i)
	}
	tests := map[string]string{
		"one folder for tens of thousands of classes": same.String(),
		"a path without end":                          "a: {hostDir: " + strings.Repeat("/a", much/2) + "}",
		"a name without end":                          strings.Repeat("a", much) + ": {}",
		"lists in lists":                              strings.Repeat("[", much),
		"maps in maps":                                strings.Repeat("{a: ", much/4),
		"dashes":                                      strings.Repeat("- ", much/2),
		"aliases of aliases": "a: &a {hostDir: [x,x,x,x,x,x,x,x,x]}\nb: &b {x: [*a,*a,*a,*a,*a,*a,*a,*a,*a]}\n" +
			"c: &c {x: [*b,*b,*b,*b,*b,*b,*b,*b,*b]}\nd: &d {x: [*c,*c,*c,*c,*c,*c,*c,*c,*c]}\ne: &e {x: [*d,*d,*d,*d,*d,*d,*d,*d,*d]}\n" +
			"f: &f {x: [*e,*e,*e,*e,*e,*e,*e,*e,*e]}\ng: &g {x: [*f,*f,*f,*f,*f,*f,*f,*f,*f]}\nh: {x: [*g,*g,*g,*g,*g,*g,*g,*g,*g]}\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := refused(t, classMap(text))
			if len(lines) > maxErrors+1 || len(lines[0]) > 3*maxErrorBytes {
				t.Errorf("got %d findings, the first of %d bytes", len(lines), len(lines[0]))
			}
		})
	}
}
