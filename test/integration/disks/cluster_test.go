// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
	"stowage.dev/stowage/test/integration/node"
)

// moveFrom changes all records of the node, whose provisioner is stopped, to another cluster's, and
// returns their number.
func moveFrom(n *node.Node, cluster string) int {
	t := n.Env.T
	store, err := diskrecord.Open(n.Path("state/disks"), "/proc")
	if err != nil {
		t.Fatal(err)
	}
	all := store.All()
	for _, record := range all {
		if record.Cluster == "" || record.Cluster == cluster {
			t.Errorf("the record of %s is of cluster %q", record.HostPath, record.Cluster)
		}
		record.Cluster = cluster
		if err := store.Put(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestNodeOfAnotherCluster: a node joins with the records and disks of another cluster, in
// which its volumes stay. No disk is cleaned nor published, whatever existingData says,
// until its data is acknowledged.
func TestNodeOfAnotherCluster(t *testing.T) {
	n := newNode(t)
	classes := map[string]string{}
	volumes := map[string]*corev1.PersistentVolume{}
	for _, existing := range []string{"Refuse", "Clean", "Publish"} {
		class := n.AddClass("existing-"+strings.ToLower(existing), map[string]any{"existingData": existing})
		n.Env.CreateClass(n.Env.Class(class).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
		image := n.Image(existing+".ext4", "16M")
		n.Command("mkfs.ext4", "-q", image)
		n.MountAt(image, n.PathOf(class, "disk"))
		classes[existing] = class
	}
	n.Start()
	for existing, class := range classes {
		volumes[existing] = n.Claim(class, "disk")
		keep(t, n.PathOf(class, "disk"))
		n.WaitEntry(class, "disk", stowage.EntryBound, "")
	}
	n.Stop()
	for _, volume := range volumes {
		strip(n, volume)
	}
	if records := moveFrom(n, "another"); records < len(classes) {
		t.Fatalf("the node has %d records", records)
	}
	n.Start()
	var words []string
	for _, class := range classes {
		words = append(words, n.WaitEntry(class, "disk", stowage.EntryRetained, "OtherCluster").Acknowledgement)
	}
	fence(n, "1")
	for _, class := range classes {
		untouched(t, n.PathOf(class, "disk"))
		n.WaitNone(class, "disk")
	}
	acknowledge(n, strings.Join(words, ","))
	for existing, class := range classes {
		if now := n.WaitRepublished(class, "disk", volumes[existing]); now.Name == volumes[existing].Name {
			t.Errorf("existingData %s: the next volume is called %s again", existing, now.Name)
		}
		untouched(t, n.PathOf(class, "disk"))
	}
}
