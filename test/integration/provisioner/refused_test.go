// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner_test

import (
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/integration/node"
)

// TestRefusedKeys: an invalid update of the configuration is reported with
// the name of the key, and not applied.
func TestRefusedKeys(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	n.Start()
	n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
	waitConfig(n, "valid at first", metav1.ConditionTrue)

	updates := 0
	for batch := range batches(refusedKeys, func(r refusedKey) string { return r.key }) {
		updates++
		var parts []string
		for _, refused := range batch {
			n.WriteConfig(refused.key, refused.value)
			parts = append(parts, refused.key, refused.want)
		}
		waitConfig(n, batch[0].key, metav1.ConditionFalse, parts...)
		for _, refused := range batch {
			if err := os.Remove(n.Path("config", refused.key)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for batch := range batches(refusedClassKeys, func(r refusedClassKey) string { return r.key }) {
		updates++
		parts := []string{"storageClassMap[" + n.Files + "]"}
		n.Configure(func(data map[string]any) {
			class := data["storageClassMap"].(map[string]any)[n.Files].(map[string]any)
			for _, refused := range batch {
				class[refused.key] = refused.value
				parts = append(parts, refused.want)
			}
		})
		waitConfig(n, batch[0].key, metav1.ConditionFalse, parts...)
	}

	n.Env.WaitEvent(metav1.NamespaceDefault, n.Name, "ConfigurationRejected", "The last good configuration stays in force")
	n.Tmpfs("disk2", "1m")
	n.WaitPhase(n.Files, "disk2", corev1.VolumeAvailable)
	refusals := waitMetric(n, `stowage_provisioner_config_reloads_total{result="error"}`, "counted", func(v float64) bool { return v > 0 })
	if refusals < float64(updates) {
		t.Errorf("%v refusals are counted, and there were %d", refusals, updates)
	}
	n.Configure(nil)
	waitConfig(n, "valid again", metav1.ConditionTrue)
}

// batches yields the cases in groups whose keys differ, so that one update has several:
// each takes seconds until it is read and reported, and unit tests have each alone. The message
// of a condition limits the size of a group.
func batches[S any](scenarios map[string]S, key func(S) string) iter.Seq[[]S] {
	const most = 4
	return func(yield func([]S) bool) {
		left := slices.Sorted(maps.Keys(scenarios))
		for len(left) > 0 {
			var batch []S
			keys := map[string]bool{}
			left = slices.DeleteFunc(left, func(scenario string) bool {
				k := key(scenarios[scenario])
				if len(batch) == most || keys[k] {
					return false
				}
				batch, keys[k] = append(batch, scenarios[scenario]), true
				return true
			})
			if !yield(batch) {
				return
			}
		}
	}
}

type refusedKey struct{ key, value, want string }

var refusedKeys = map[string]refusedKey{
	"an unknown key":                          {"classes", "{}", "unknown key: allowed are storageClassMap"},
	"a key in another spelling":               {"minresyncperiod", "5m", "unknown key: write minResyncPeriod"},
	"the annotation of Kubernetes 1.9":        {"useAlphaAPI", "true", "must be off: nothing reads the annotation"},
	"neither Jobs nor none that clean":        {"useJobForCleaning", "maybe", "must be true or false"},
	"volumes that go with the Node":           {"setPVOwnerRef", "true", "must be off: deleting a Node object"},
	"no class at all":                         {"storageClassMap", "{}", "must have at least one storage class"},
	"classes that are no YAML":                {"storageClassMap", "{", "not valid YAML"},
	"a time without its unit":                 {"minResyncPeriod", "5", "must be a time with its unit"},
	"a number that is too small":              {"maxCleaning", "0", "must be 1 to 64"},
	"a time that is too short":                {"probeTimeout", "1ms", "must be 1s to 10m0s"},
	"a taint to remove without its key":       {"removeNodeNotReadyTaint", "true", "provisionerNotReadyNodeTaintKey"},
	"a label that is the provisioner's own":   {"labelsForPV", "stowage.dev/node: x", "labels that begin with stowage.dev/ are reserved for the provisioner"},
	"a word where a list is expected":         {"nodeLabelsForPV", "zone", "must be a list"},
	"tolerations that are none":               {"jobTolerations", "all", "jobTolerations"},
	"a switch that is neither true nor false": {"useNodeNameOnly", "1", "must be true or false"},
	"two documents in one key":                {"maxCleaning", "1\n---\n2\n", "must be one YAML document"},
}

type refusedClassKey struct {
	key   string
	value any
	want  string
}

var refusedClassKeys = map[string]refusedClassKey{
	"a class with a key in another spelling": {"hostdir", "/mnt", "unknown key: write hostDir"},
	"a folder without a slash":               {"hostDir", "mnt/disks", "must be an absolute path"},
	"the root folder":                        {"hostDir", "/", "must not be /"},
	"a folder by a detour":                   {"hostDir", "/mnt/../mnt/disks", "write /mnt/disks"},
	"volumes for several nodes":              {"selector", []any{map[string]any{"matchExpressions": []any{}}}, "must be absent: it lets several nodes use one volume"},
	"a volume mode in another spelling":      {"volumeMode", "block", `supported values: "Block", "Filesystem"`},
	"an access mode that is none":            {"accessMode", "ReadWrite", `supported values: "ReadOnlyMany"`},
	"a file system that is a path":           {"fsType", "../sh", `supported values: "btrfs", "ext2"`},
	"a pattern that is empty":                {"namePattern", "a*,,b*", "has an empty pattern"},
	"directories without a pattern":          {"allowDirectories", true, "must say which plain directories are volumes"},
	"a pattern without directories":          {"directoryPattern", "vol-*", "has no effect without allowDirectories"},
	"a method that is not built in":          {"blockCleanerCommand", []any{"rm"}, "is neither a built-in method"},
	"passes that are too many":               {"blockCleanerCommand", []any{"/scripts/shred.sh", "1000"}, "how often to overwrite"},
	"files that are shredded":                {"fsCleanerCommand", []any{"shred"}, "must begin with the absolute path of a program"},
	"a clean of no time":                     {"cleanTimeout", "1ms", "must be at least 1s"},
	"data that is wiped":                     {"existingData", "Wipe", `supported values: "AssumeBlank", "Clean"`},
	"names that are made up":                 {"volumeName", "Short", `supported values: "Reference", "Stowage"`},
}

// waitConfig waits until the report has this condition of the configuration, with a
// message that has all the parts.
func waitConfig(n *node.Node, what string, status metav1.ConditionStatus, parts ...string) {
	n.Env.T.Helper()
	n.WaitReport(what+": the configuration to be "+string(status)+" with "+strings.Join(parts, ", "), func(r *stowage.LocalDiskReport) bool {
		c := meta.FindStatusCondition(r.Status.Conditions, stowage.ConditionConfigValid)
		return c != nil && c.Status == status && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(c.Message, part) })
	})
}
