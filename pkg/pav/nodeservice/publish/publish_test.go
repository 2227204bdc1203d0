// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package publish_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/pav/nodeservice/publish"
	"stowage.dev/stowage/pkg/pav/nodeservice/stagingdir"
	"stowage.dev/stowage/pkg/pav/pavdir"
	"stowage.dev/stowage/test/deadline"
)

const (
	volume = "0123456789abcdef0123456789abcdef"
	uid    = "6f6c1d4e-0000-0000-0000-000000000001"
)

// node is a node in a directory: kubelet's directory and that of the stagings, both on a file system of
// their own. Its tests are not parallel: a process that another test starts has the open files of this
// one until it executes its program, and so keeps mounts busy.
type node struct {
	t         *testing.T
	path      string
	dirs      *stagingdir.Dirs
	publisher *publish.Publisher
}

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	n := &node{t: t, path: t.TempDir()}
	n.do(unix.Mount("node", n.path, "tmpfs", 0, "size=32m"))
	t.Cleanup(func() {
		if err := unmountAll(n.path); err != nil {
			t.Error(err)
		}
	})
	n.do(unix.Mount("", n.path, "", unix.MS_SHARED, ""))
	var err error
	n.dirs, err = stagingdir.New(stagingdir.Config{Root: filepath.Join(n.path, "pav"), Proc: "/proc", Sys: "/sys", Dev: "/dev"})
	n.do(err)
	n.publisher, err = publish.New(publish.Config{KubeletDir: n.kubelet(), Proc: "/proc"})
	n.do(err)
	n.do(os.MkdirAll(filepath.Dir(n.target("p1")), 0o755))
	n.do(os.MkdirAll(n.attempt(), 0o755))
	return n
}

// unmountAll unmounts a path and all below.
func unmountAll(path string) error {
	out, err := exec.Command("umount", "--recursive", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("unmount %s: %w: %s", path, err, out)
	}
	return nil
}

func (n *node) do(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) kubelet() string { return filepath.Join(n.path, "kubelet") }
func (n *node) attempt() string {
	return pavdir.AttemptPath(filepath.Join(n.path, "pav"), volume, uid, 1)
}

// target is the target path of a pod.
func (n *node) target(pod string) string {
	return filepath.Join(n.kubelet(), "pods", pod, "volumes/kubernetes.io~csi/pv/mount")
}

func (n *node) open() *stagingdir.Volume {
	n.t.Helper()
	v, err := n.dirs.Open(stagingdir.Attempt{Volume: volume, UID: uid, Number: 1})
	n.do(err)
	return v
}

func (n *node) publish(o publish.Options) {
	n.t.Helper()
	v := n.open()
	n.do(n.publisher.Publish(v, n.target("p1"), o))
	n.do(v.Close())
}

func (n *node) write(path, text string) error {
	return os.WriteFile(path, []byte(text), 0o600)
}

// A directory is mounted once, however often it is published, and unmounted once.
func TestPublish(t *testing.T) {
	n := newNode(t)
	n.do(os.Mkdir(filepath.Join(n.attempt(), "volume"), 0o755))
	n.publish(publish.Options{})
	n.publish(publish.Options{})
	n.do(n.write(filepath.Join(n.target("p1"), "file"), "text"))
	if text, err := os.ReadFile(filepath.Join(n.attempt(), "volume/file")); err != nil || string(text) != "text" {
		t.Errorf("the volume has %q: %v", text, err)
	}
	stats, err := n.publisher.Stats(n.target("p1"))
	if err != nil || stats.Bytes != 32<<20 || stats.Inodes == 0 || stats.BytesAvailable+stats.BytesUsed != stats.Bytes {
		t.Errorf("%+v, %v", stats, err)
	}
	for range 2 {
		n.do(n.publisher.Unpublish(n.target("p1")))
	}
	if _, err := os.Lstat(n.target("p1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target path is left: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(n.attempt(), "volume/file")); err != nil {
		t.Errorf("the volume has lost its file: %v", err)
	}
}

// A mount has the attributes that are requested, and no devices.
func TestAttributes(t *testing.T) {
	for row, tc := range map[string]struct {
		options publish.Options
		want    string
	}{
		"none":      {publish.Options{}, "nodev,relatime,rw"},
		"read-only": {publish.Options{ReadOnly: true}, "nodev,relatime,ro"},
		"options":   {publish.Options{Flags: []string{"noatime", "nosuid", "vers=4"}}, "noatime,nodev,nosuid,rw"},
	} {
		t.Run(row, func(t *testing.T) {
			n := newNode(t)
			n.do(os.Mkdir(filepath.Join(n.attempt(), "volume"), 0o755))
			n.publish(tc.options)
			out, err := exec.Command("findmnt", "--noheadings", "--output=VFS-OPTIONS", n.target("p1")).Output()
			n.do(err)
			got := strings.Split(strings.TrimSpace(string(out)), ",")
			want := strings.Split(tc.want, ",")
			if diff := cmp.Diff(map[string]bool{}, symmetric(want, got)); diff != "" {
				t.Errorf("options %v, want %v", got, want)
			}
		})
	}
}

// symmetric returns what is in one of two lists only.
func symmetric(a, b []string) map[string]bool {
	only := map[string]bool{}
	for _, list := range [][]string{a, b} {
		for _, element := range list {
			if only[element] {
				delete(only, element)
			} else {
				only[element] = true
			}
		}
	}
	return only
}

// Neither what is mounted in the volume before, nor what is later, is in the pod.
func TestMountsInVolume(t *testing.T) {
	n := newNode(t)
	for _, name := range []string{"before", "after"} {
		n.do(os.MkdirAll(filepath.Join(n.attempt(), "volume", name), 0o755))
	}
	mount := func(name string) {
		at := filepath.Join(n.attempt(), "volume", name)
		n.do(unix.Mount("x", at, "tmpfs", 0, "size=1m"))
		n.do(n.write(filepath.Join(at, "secret"), "x"))
	}
	mount("before")
	n.publish(publish.Options{})
	mount("after")
	for _, name := range []string{"before", "after"} {
		if _, err := os.Lstat(filepath.Join(n.target("p1"), name, "secret")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the pod has what is mounted at %s: %v", name, err)
		}
	}
}

// Paths that kubelet does not use, links, and targets where something else is mounted are refused.
func TestTargets(t *testing.T) {
	n := newNode(t)
	n.do(os.Mkdir(filepath.Join(n.attempt(), "volume"), 0o755))
	n.do(os.Mkdir(filepath.Join(n.path, "outside"), 0o755))
	n.do(os.Symlink(filepath.Join(n.path, "outside"), filepath.Join(n.kubelet(), "pods/link")))
	n.do(os.MkdirAll(filepath.Join(n.kubelet(), "pods/p2"), 0o755))
	n.do(os.Symlink(filepath.Join(n.path, "outside"), filepath.Join(n.kubelet(), "pods/p2/mount")))
	n.do(os.MkdirAll(filepath.Join(n.kubelet(), "pods/p3/mount"), 0o755))
	n.do(unix.Mount("other", filepath.Join(n.kubelet(), "pods/p3/mount"), "tmpfs", 0, "size=1m"))
	v := n.open()
	defer v.Close()
	for target, message := range map[string]string{
		filepath.Join(n.path, "outside/mount"):     "is not a target path of kubelet",
		n.kubelet() + "/pods/../../outside/mount":  "is not a target path of kubelet",
		n.kubelet() + "/plugins/x/mount":           "is not a target path of kubelet",
		n.kubelet() + "/pods/link/mount":           "too many levels of symbolic links",
		n.kubelet() + "/pods/p2/mount":             "too many levels of symbolic links",
		n.kubelet() + "/pods/p3/mount":             "something else is mounted there",
		n.kubelet() + "/pods/none/volumes/x/mount": "no such file or directory",
		"relative/pods/mount":                      "is not a target path of kubelet",
	} {
		if err := n.publisher.Publish(v, target, publish.Options{}); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("publish at %s: error %v, want %q", target, err, message)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(n.path, "outside")); err != nil || len(entries) > 0 {
		t.Errorf("outside of kubelet's directory: %v, %v", entries, err)
	}
}

// A file system whose server has died is unmounted, and never hides a directory of the node.
func TestDeadServer(t *testing.T) {
	if _, err := exec.LookPath("bindfs"); err != nil {
		t.Skip(err)
	}
	n := newNode(t)
	at := filepath.Join(n.attempt(), "volume")
	source := filepath.Join(n.path, "source")
	n.do(errors.Join(os.Mkdir(at, 0o755), os.Mkdir(source, 0o755)))
	server := exec.Command("bindfs", "-f", source, at)
	n.do(server.Start())
	waitMounted(t, at)
	v := n.open()
	n.publish(publish.Options{})
	staged := v.Staged(1)
	n.do(v.Close())
	n.do(server.Process.Kill())
	_ = server.Wait()
	if _, err := n.dirs.Open(stagingdir.Attempt{Volume: volume, UID: uid, Number: 1}); err == nil {
		t.Error("a volume without its server was opened")
	}
	n.do(n.publisher.Unpublish(n.target("p1")))
	n.do(n.dirs.Clear(volume, uid, 1, &staged))
	v = n.open()
	if found := v.Staged(1); found == staged {
		t.Errorf("the directory below the file system counts as the volume: %+v", found)
	}
	n.do(v.Close())
}

// waitMounted waits until something is mounted at a path.
func waitMounted(t *testing.T, path string) {
	t.Helper()
	ctx, cancel := deadline.Context(t.Context())
	defer cancel()
	found := false
	err := mounts.Watch(ctx, mounts.Self, func() {
		if table, err := mounts.Read(mounts.Self); err == nil {
			if _, found = table.At(path); found {
				cancel()
			}
		}
	})
	if err != nil || !found {
		t.Fatalf("nothing is mounted at %s: %v", path, err)
	}
}

// Volumes that kubelet has are found by its own records.
func TestVolumesOfKubelet(t *testing.T) {
	n := newNode(t)
	n.do(os.Mkdir(filepath.Join(n.attempt(), "volume"), 0o755))
	n.do(n.write(filepath.Join(filepath.Dir(n.target("p1")), "vol_data.json"), `{"driverName":"d","volumeHandle":"h"}`))
	n.do(os.MkdirAll(filepath.Join(n.kubelet(), "plugins/kubernetes.io/csi/volumeDevices/pv2/data"), 0o755))
	n.do(n.write(filepath.Join(n.kubelet(), "plugins/kubernetes.io/csi/volumeDevices/pv2/data/vol_data.json"), `{"driverName":"d2","volumeHandle":"h"}`))
	targets := func() []string {
		t.Helper()
		found, err := n.publisher.Targets(stowage.PavVolumeKey("d", "h"))
		n.do(err)
		return found
	}
	if found := targets(); len(found) > 0 {
		t.Errorf("targets %v, want none: nothing is mounted", found)
	}
	n.publish(publish.Options{})
	if diff := cmp.Diff([]string{n.target("p1")}, targets()); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	drivers, err := n.publisher.Drivers()
	n.do(err)
	if diff := cmp.Diff(map[string]bool{"d": true, "d2": true}, drivers); diff != "" {
		t.Errorf("drivers (-want +got):\n%s", diff)
	}
}
