// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package frame lets end-to-end tests share a cluster of real nodes (package realnode). Tests
// have their own nodes and namespace on it:
//
//	func TestMain(m *testing.M) { os.Exit(frame.Main(m, frame.Options{})) }
//
//	func TestWrites(t *testing.T) {
//		e := frame.New(t)
//		nodes := e.AddNodes(frame.Node("a", realnode.Disk{Kind: realnode.Ext4, Path: "/mnt/disks/fast/1", Size: 64 << 20}))
//		e.Create(pv, pvc, pod)        // typed objects; those in no namespace are named by e.Name
//		e.WaitPod("writer", "done", frame.Succeeded)
//		out := e.Exec("reader", "cat", "/data/word")
//		nodes[0].Kill()
//	}
//
// A test's objects and nodes are removed after it. Every wait is for an event and ends
// with the test's deadline (Env.Context), which fails the test and logs Dump. Pods run
// on the Env's own nodes with the node selector of Env.OnNode. Tests that need another
// control plane start one with Options and NewOn, or share one by a Site.
//
// Tests need root and the Debian packages that `go run ./hack/requirements -packages e2e` prints. -keep leaves the cluster's
// folder, with all logs, in place.
package frame
