// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
)

// on runs a shell script on a node and returns its output.
func on(e *frame.Env, n *realnode.Node, script string) string {
	e.T.Helper()
	out, err := n.Run(e.Context, nil, "sh", "-c", script)
	if err != nil {
		e.T.Fatal(err)
	}
	return out
}

// TestDisks: disks of all kinds come, go and come back as those of a machine do.
func TestDisks(t *testing.T) {
	e := frame.New(t)
	const size = 16 << 20
	const ext4, tmpfs, block, folder = "/mnt/disks/fast/ext4", "/mnt/disks/fast/tmpfs", "/mnt/disks/block/raw", "/mnt/disks/fast/folder"
	n := e.AddNodes(frame.Node("a",
		realnode.Disk{Kind: realnode.Ext4, Path: ext4, Size: size},
		realnode.Disk{Kind: realnode.Block, Path: block, Size: size},
		realnode.Disk{Kind: realnode.Directory, Path: folder}))[0]
	if _, err := n.AddDisk(e.Context, realnode.Disk{Kind: realnode.Tmpfs, Path: tmpfs, Size: size}); err != nil {
		t.Fatal(err)
	}
	mounted := func() string { return on(e, n, "findmnt -rno TARGET,FSTYPE | grep ^/mnt | sort") }
	all := ext4 + " ext4\n" + tmpfs + " tmpfs\n"
	if diff := cmp.Diff(all, mounted()); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if got := on(e, n, "blockdev --getsize64 "+block); got != "16777216\n" {
		t.Errorf("the block device has %q bytes, want 16777216", got)
	}
	on(e, n, "echo kept | tee "+ext4+"/word "+tmpfs+"/word "+folder+"/word "+block+" >/var/lib/stowage/word; sync")

	// After a power cut everything is unchanged, except files in memory.
	e.Do(n.Kill())
	e.Do(n.Start(e.Context))
	const words = "for f in " + ext4 + "/word " + tmpfs + "/word " + folder + "/word /var/lib/stowage/word; do test -e $f && cat $f || echo none; done; head -c 5 " + block
	if diff := cmp.Diff("kept\nnone\nkept\nkept\nkept\n", on(e, n, words)); diff != "" {
		t.Errorf("after a power cut (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(all, mounted()); diff != "" {
		t.Errorf("mounts after a power cut (-want +got):\n%s", diff)
	}

	// fstab still names a disk that is not mounted, and one that was removed.
	e.Do(n.UnmountDisk(e.Context, ext4))
	if got := mounted(); strings.Contains(got, ext4) {
		t.Errorf("an unmounted disk is mounted: %q", got)
	}
	e.Do(n.MountDisk(e.Context, ext4))
	e.Do(n.RemoveDisk(e.Context, ext4))
	if got := on(e, n, "cat /etc/fstab"); !strings.Contains(got, " "+ext4+" ext4 ") || strings.Count(got, "\n") != 2 {
		t.Errorf("fstab is %q, want both file systems", got)
	}
	if err := n.MountDisk(e.Context, ext4); err == nil {
		t.Error("a disk that was removed can be mounted")
	}
	if _, err := n.AddDisk(e.Context, realnode.Disk{Kind: realnode.Ext4, Path: ext4, Size: size}); err != nil {
		t.Fatal(err)
	}
	if got := on(e, n, "ls "+ext4); got != "lost+found\n" {
		t.Errorf("the new disk has %q", got)
	}

	// After a wipe the machine's own files are lost, and the disks' are not.
	on(e, n, "echo disk >"+ext4+"/word; sync")
	e.Do(n.Kill())
	e.Do(n.Wipe())
	e.Do(n.Start(e.Context))
	if diff := cmp.Diff("disk\nnone\nnone\nnone\nkept\n", on(e, n, words)); diff != "" {
		t.Errorf("after the wipe (-want +got):\n%s", diff)
	}
	if _, err := os.Stat("/var/lib/stowage"); !errors.Is(err, fs.ErrNotExist) {
		t.Logf("this machine has its own folder /var/lib/stowage (%v): the test cannot show that nodes do not use it", err)
	}
}

// TestServices: pods run on while kubelet and containerd are killed and come back, and a Service
// leads from one node to a pod of another.
func TestServices(t *testing.T) {
	e := frame.New(t)
	nodes := e.AddNodes(frame.Node("a"), frame.Node("b"))
	pod := e.OnNode(e.Shell("serves", "while true; do echo hello | nc -l -p 80 -w 60; done"), "a")
	pod.Labels = map[string]string{"app": "serves"}
	e.Create(pod, e.OnNode(e.Shell("asks", "exec sleep 1000000"), "b"))
	e.WaitPod("serves", "ready", frame.Ready)
	e.WaitPod("asks", "ready", frame.Ready)
	e.Kubectl("expose", "pod", "serves", "--port=80")
	address := strings.TrimSpace(e.Kubectl("get", "service", "serves", "--output=jsonpath={.spec.clusterIP}"))
	if got := e.Exec("asks", "sh", "-c", "until nc -w 5 "+address+" 80; do sleep 0.1; done"); got != "hello\n" {
		t.Errorf("the service answers %q", got)
	}

	e.Do(nodes[0].Containerd().Restart(e.Context))
	// kubelet ends if containerd is not initialized yet; as a service of systemd it would be started again.
	kubelet := nodes[0].Kubelet()
	for err := kubelet.Restart(e.Context); err != nil; err = kubelet.Restart(e.Context) {
		if e.Context.Err() != nil || kubelet.Running() {
			t.Fatal(err)
		}
	}
	if got := e.Exec("asks", "sh", "-c", "until nc -w 5 "+address+" 80; do sleep 0.1; done"); got != "hello\n" {
		t.Errorf("after both were killed the service answers %q", got)
	}
	e.Create(e.OnNode(e.Shell("next", "true"), "a"))
	e.WaitPod("next", "done", frame.Succeeded)
	if seen := e.WaitPod("serves", "ready", frame.Ready); seen.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("the pod was restarted")
	}
}
