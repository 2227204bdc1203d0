// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner_test

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
)

// TestCannotStart: a provisioner that cannot work ends, with the reason.
func TestCannotStart(t *testing.T) {
	n := newNode(t)
	empty := n.Path("empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	file := n.Path("file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, scenario := range map[string]struct {
		args []string
		want []string
	}{
		"without the name of the node":     {nil, []string{"MY_NODE_NAME", "--node-name"}},
		"the configuration is not mounted": {[]string{"--node-name=" + n.Name, "--config=" + n.Path("nowhere")}, []string{n.Path("nowhere")}},
		"the configuration is empty":       {[]string{"--node-name=" + n.Name, "--config=" + empty}, []string{"storageClassMap: Required value: must have at least one storage class"}},
		"the state folder cannot be made":  {[]string{"--node-name=" + n.Name, "--state-dir=" + file}, []string{file}},
		"the address to listen at is none": {[]string{"--node-name=" + n.Name, "--listen-address=nowhere"}, []string{"nowhere"}},
		"with an unknown argument":         {[]string{"--node-name=" + n.Name, "start"}, []string{"start"}},
	} {
		t.Run(name, func(t *testing.T) {
			if out := n.RunToEnd(scenario.args...); !contains(out, scenario.want...) {
				t.Errorf("the provisioner printed %q, want %q", out, scenario.want)
			}
		})
	}
}

// TestSecondProvisioner: of two provisioners that share records, the second one ends.
func TestSecondProvisioner(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	n.Start()
	before := n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
	if out := n.RunToEnd("--node-name=" + n.Name); !contains(out, n.Path("state"), "another provisioner on this node uses it") {
		t.Errorf("the second provisioner printed %q", out)
	}
	n.Tmpfs("disk2", "1m")
	n.WaitPhase(n.Files, "disk2", corev1.VolumeAvailable)
	same(t, n, before, n.Files, "disk1")
}

// TestNodeComesLater: a provisioner that starts before its Node object exists waits for it.
func TestNodeComesLater(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	if err := n.Env.Client.CoreV1().Nodes().Delete(n.Env.Context(), n.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.WaitAnswer("/readyz", "not ready", func(a node.Answer) bool { return a.Status == 503 && contains(a.Body, "not been scanned yet") })
	n.WaitAnswer("/healthz", "ok", func(a node.Answer) bool { return a.Status == 200 })
	pid := n.Process().PID()
	n.Env.AddNodes(n.Env.Node("a"))
	n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
	stillRuns(t, n, pid)
}

// TestHostname: the node affinity of volumes has the node's hostname label. If that is not the
// node's name, an administrator must confirm it.
func TestHostname(t *testing.T) {
	fixture.NoController(t, "confirms hostnames")
	n := newNode(t)
	hostname := n.Env.Name("host-1")
	n.Env.PatchNode("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{corev1.LabelHostname: hostname}}})
	n.Tmpfs("disk1", "1m")
	n.Start()
	denied := n.WaitEntry(n.Files, "disk1", stowage.EntryPending, "CannotCreate")
	if !contains(denied.Message, "hostname "+n.Name, "set host."+n.Name, "stowage-provisioner-nodes") {
		t.Errorf("the report's message %q has no remedy", denied.Message)
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"host." + n.Name: hostname}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Env.Client.CoreV1().ConfigMaps("stowage-system").Patch(n.Env.Context(), "stowage-provisioner-nodes", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	volume := n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
	if values := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values; !slices.Equal(values, []string{hostname}) {
		t.Errorf("the volume is on %q, want %s", values, hostname)
	}
	n.WaitEntry(n.Files, "disk1", stowage.EntryAvailable, "")

	n.Env.CreatePVC(n.Env.PVC("data").Class(n.Files).Request("1Mi"))
	n.Env.WaitScheduled(n.Env.CreatePod(n.Env.Pod("web").PVC("data")), "a")
}

// TestStartupTaint: the taint is removed once all disks have an Available volume, and
// all other taints stay.
func TestStartupTaint(t *testing.T) {
	const key, disks = "stowage.dev/provisioner-not-ready", 8
	n := newNode(t)
	n.Configure(func(data map[string]any) {
		data["removeNodeNotReadyTaint"], data["provisionerNotReadyNodeTaintKey"] = "true", key
	})
	other := corev1.Taint{Key: "example.com/gpu", Value: "a100", Effect: corev1.TaintEffectNoSchedule}
	n.Env.PatchNode("a", map[string]any{"spec": map[string]any{"taints": []corev1.Taint{
		{Key: key, Effect: corev1.TaintEffectNoSchedule}, other, {Key: key, Effect: corev1.TaintEffectNoExecute},
	}}})
	for i := range disks {
		n.Tmpfs("disk"+strconv.Itoa(i), "1m")
	}
	volumes, err := n.Env.Client.CoreV1().PersistentVolumes().Watch(n.Env.Context(), metav1.ListOptions{LabelSelector: localpv.Selector(n.Name)})
	if err != nil {
		t.Fatal(err)
	}
	defer volumes.Stop()
	nodes, err := n.Env.Client.CoreV1().Nodes().Watch(n.Env.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + n.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Stop()
	n.Start()

	for event := range nodes.ResultChan() {
		if now, ok := event.Object.(*corev1.Node); ok && !slices.ContainsFunc(now.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key }) {
			if len(now.Spec.Taints) != 1 || now.Spec.Taints[0] != other {
				t.Errorf("the node has taints %v, want the other one", now.Spec.Taints)
			}
			if n := availableBefore(t, volumes, disks, now.ResourceVersion); n < disks {
				t.Errorf("%d of %d volumes were Available when the taint went", n, disks)
			}
			return
		}
	}
	t.Fatal("the taint stays")
}

// availableBefore waits until count volumes are Available, and counts those that were
// Available before a version of another object. Versions are in the order of the API server's
// writes to all objects.
func availableBefore(t *testing.T, volumes watch.Interface, all int, version string) int {
	t.Helper()
	limit, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	seen, before := map[types.UID]bool{}, 0
	for event := range volumes.ResultChan() {
		volume, ok := event.Object.(*corev1.PersistentVolume)
		if !ok || volume.Status.Phase != corev1.VolumeAvailable || seen[volume.UID] {
			continue
		}
		seen[volume.UID] = true
		at, err := strconv.ParseInt(volume.ResourceVersion, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if at < limit {
			before++
		}
		if len(seen) == all {
			break
		}
	}
	return before
}

func contains(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}
