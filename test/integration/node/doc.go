// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node gives integration tests a node with real disks and a real provisioner: the
// Node object is simulated, the disks are file systems and loop devices of this
// machine, and the provisioner is the stowage-provisioner command with the manifests' rights,
// their policies, and the token that a kubelet would mount.
//
//	func TestMain(m *testing.M) { os.Exit(fixture.Main(m, node.Install)) }
//
//	e := fixture.New(t)
//	n := node.New(t, e, "a")     // skips the test where it cannot mount
//	n.Mount("disk1", "64M")      // an ext4 in the folder of class n.Files
//	n.Device("disk1", "64M")     // a loop device in that of class n.Blocks
//	n.Start()
//	pv := n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
//
// A node has its own folder: disks, configuration, state
// and a kubelet's folder. Whatever is mounted or attached is undone after the test.
package node
