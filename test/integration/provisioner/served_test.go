// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/integration/node"
)

// TestProbes: a provisioner is ready for a class as long as it can read its folder.
func TestProbes(t *testing.T) {
	n := newNode(t)
	more := n.AddClass("more", nil)
	n.Start()
	ok := func(a node.Answer) bool { return a.Status == 200 && a.Body == "ok\n" }
	for _, path := range []string{"/healthz", "/readyz", "/readyz/" + n.Files, "/readyz/" + more} {
		n.WaitAnswer(path, "ok", ok)
	}
	n.WaitAnswer("/readyz/none", "not configured", func(a node.Answer) bool { return a.Status == 503 && contains(a.Body, "none", "not configured") })
	n.WaitAnswer("/elsewhere", "not found", func(a node.Answer) bool { return a.Status == 404 })

	if err := os.Remove(n.Path("more")); err != nil {
		t.Fatal(err)
	}
	broken := func(a node.Answer) bool { return a.Status == 503 && contains(a.Body, more, n.Path("more")) }
	n.WaitAnswer("/readyz/"+more, "not ready, and why", broken)
	n.WaitAnswer("/readyz", "not ready, and why", broken)
	n.WaitAnswer("/readyz/"+n.Files, "ok", ok)
	n.WaitAnswer("/healthz", "ok", ok)

	if err := os.Mkdir(n.Path("more"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.WaitAnswer("/readyz", "ok", ok)
}

// TestMetrics: the totals are those of the existing volumes, and actions are
// counted under the names that dashboards of the reference use.
func TestMetrics(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	n.Tmpfs("disk2", "3m")
	n.Mount("disk3", "64M") // has bytes that its volume does not offer
	n.Device("disk1", "64M")
	n.Device("disk2", "70001K")
	if err := os.Mkdir(n.PathOf(n.Files, "plain"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.Start()
	for _, name := range []string{"disk1", "disk3"} {
		n.WaitPhase(n.Files, name, corev1.VolumeAvailable)
	}
	bound := n.Claim(n.Files, "disk2")
	n.WaitPhase(n.Blocks, "disk1", corev1.VolumeAvailable)
	n.WaitPhase(n.Blocks, "disk2", corev1.VolumeAvailable)

	files, blocks := capacities(t, n)
	is(n, `stowage_provisioner_volumes{class="`+n.Files+`",state="Available"}`, 2)
	is(n, `stowage_provisioner_volumes{class="`+n.Files+`",state="Bound"}`, 1)
	is(n, `stowage_provisioner_volumes{class="`+n.Blocks+`",state="Available"}`, 2)
	is(n, `stowage_provisioner_volume_bytes{class="`+n.Blocks+`",state="Available"}`, blocks)
	is(n, `stowage_provisioner_skipped{class="`+n.Files+`",reason="NotMountPoint"}`, 1)
	is(n, `local_volume_provisioner_persistentvolume_capacity_bytes{mode="Filesystem"}`, files)
	is(n, `local_volume_provisioner_persistentvolume_capacity_bytes{mode="Block"}`, blocks)
	is(n, `local_volume_provisioner_persistentvolume_discovery_total{mode="Filesystem"}`, 3)
	is(n, `local_volume_provisioner_persistentvolume_discovery_total{mode="Block"}`, 2)
	is(n, `local_volume_provisioner_persistentvolume_discovery_duration_seconds_count{mode="Block"}`, 2)
	is(n, `stowage_provisioner_disk_to_available_seconds_count`, 5)
	is(n, `stowage_provisioner_config_reloads_total{result="success"}`, 1)
	for _, name := range []string{
		"stowage_provisioner_config_last_good_timestamp_seconds", "stowage_provisioner_last_scan_timestamp_seconds",
		"stowage_provisioner_scan_duration_seconds_count", `local_volume_provisioner_apiserver_requests_total{method="create"}`,
		`local_volume_provisioner_apiserver_requests_duration_seconds_count{method="get"}`,
	} {
		waitMetric(n, name, "more than 0", func(v float64) bool { return v > 0 })
	}

	n.Release(bound)
	n.WaitRepublished(n.Files, "disk2", bound)
	is(n, `local_volume_provisioner_persistentvolume_delete_total{mode="Filesystem",type="process"}`, 1)
	is(n, `local_volume_provisioner_persistentvolume_delete_duration_seconds_count{capacity="500G",cleanup_command="",mode="Filesystem",type="process"}`, 1)
	is(n, `stowage_provisioner_released_to_available_seconds_count`, 1)
	is(n, `stowage_provisioner_volumes{class="`+n.Files+`",state="Available"}`, 3)
	is(n, `local_volume_provisioner_persistentvolume_discovery_total{mode="Filesystem"}`, 4)
	for _, name := range []string{"proctable_running", "proctable_succeeded", "proctable_failed"} {
		is(n, "local_volume_provisioner_"+name, 0)
	}
	is(n, "stowage_provisioner_clean_in_progress", 0)
	is(n, "stowage_provisioner_clean_queue", 0)
}

// capacities is the sum of the node's volumes in the API server, in bytes.
func capacities(t *testing.T, n *node.Node) (files, blocks float64) {
	t.Helper()
	list, err := n.Env.Client.CoreV1().PersistentVolumes().List(n.Env.Context(), metav1.ListOptions{LabelSelector: localpv.Selector(n.Name)})
	if err != nil {
		t.Fatal(err)
	}
	for _, volume := range list.Items {
		bytes := float64(volume.Spec.Capacity.Storage().Value())
		if *volume.Spec.VolumeMode == corev1.PersistentVolumeBlock {
			blocks += bytes
		} else {
			files += bytes
		}
	}
	return files, blocks
}

// is waits until a metric has a value.
func is(n *node.Node, metric string, want float64) {
	n.Env.T.Helper()
	waitMetric(n, metric, strconv.FormatFloat(want, 'f', -1, 64), func(v float64) bool { return v == want })
}

// waitMetric waits until the provisioner serves a metric, with its labels in order, and
// is accepts its value.
func waitMetric(n *node.Node, metric, what string, is func(float64) bool) float64 {
	n.Env.T.Helper()
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(metric) + ` (\S+)$`)
	var value float64
	n.WaitAnswer("/metrics", metric+" "+what, func(a node.Answer) bool {
		found := line.FindStringSubmatch(a.Body)
		if found == nil {
			return false
		}
		var err error
		value, err = strconv.ParseFloat(found[1], 64)
		return err == nil && is(value)
	})
	return value
}
