// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/source"
	"stowage.dev/stowage/test/provisioners"
)

// Classes, one for each kind of disk.
const (
	tmpfsClass = "tmpfs"
	ext4Class  = "ext4"
	blockClass = "block"
)

var classes = []string{tmpfsClass, ext4Class, blockClass}

// node is a control plane with its defaults and one node, whose provisioner is the
// stowage-provisioner command, with the manifests' rights and under their policies. It requires
// root, and measures one thing at a time.
type node struct {
	cluster     *cluster.Cluster
	folder      string // of all disks and of the provisioner's files
	namespace   string // of claims
	volumes     observed
	binary      string   // of the provisioner
	cleaner     []string // of blockClass; nil: the default
	resync      time.Duration
	group       *group // that the provisioner runs in; nil: this process's
	provisioner *cluster.Process
	devices     []string       // loop devices
	closers     []func() error // called in reverse order
}

// with starts a control plane with a node for do, and undoes everything after it.
func (b *bench) with(ctx context.Context, do func(*node) error) (err error) {
	n := &node{binary: b.provisioner, resync: 5 * time.Minute}
	defer func() {
		if err != nil && n.provisioner != nil {
			err = fmt.Errorf("%w%s", err, n.provisioner.LogTail())
		}
		for _, undo := range slices.Backward(n.closers) {
			err = errors.Join(err, undo())
		}
	}()
	if err := n.open(ctx, b.binaries); err != nil {
		return err
	}
	return do(n)
}

// later has something done at the end.
func (n *node) later(do func() error) { n.closers = append(n.closers, do) }

func (n *node) open(ctx context.Context, binaries cluster.Binaries) (err error) {
	if n.folder, err = os.MkdirTemp("", "stowage-local-"); err != nil {
		return err
	}
	n.later(func() error { return os.RemoveAll(n.folder) })
	parts.Progress("control plane")
	if n.cluster, err = cluster.Start(ctx, cluster.Config{Binaries: binaries}); err != nil {
		return err
	}
	n.later(n.cluster.Stop)
	if err := provisioners.Apply(ctx, n.cluster); err != nil {
		return err
	}
	if n.namespace, err = n.cluster.NewNamespace(ctx, "local"); err != nil {
		return err
	}
	stop, err := n.volumes.watch(ctx, n.cluster.Client())
	if err != nil {
		return err
	}
	n.later(stop)
	if err := n.cluster.AddNodes(ctx, cluster.NodeSet{Prefix: "local", Count: 1}.Nodes()...); err != nil {
		return err
	}
	for _, kind := range classes {
		if err := n.addClass(ctx, kind); err != nil {
			return fmt.Errorf("add class %s: %w", kind, err)
		}
	}
	return errors.Join(os.Mkdir(n.path("images"), 0o755), n.process().MakeFolders())
}

// addClass adds a class, whose claims are bound without a pod, and the folder of its disks.
func (n *node) addClass(ctx context.Context, kind string) error {
	if err := os.Mkdir(n.path(kind), 0o755); err != nil {
		return err
	}
	class := builders.MakeClass(kind).Immediate().ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).Obj()
	if _, err := n.cluster.Client().StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	return provisioners.AllowClass(ctx, n.cluster.Client(), kind)
}

func (n *node) process() provisioners.Process {
	return provisioners.Process{Cluster: n.cluster, Binary: n.binary, Node: "local-0", Folder: n.folder}
}

// path is a path below the folder; that of a disk is its kind and name.
func (n *node) path(elements ...string) string {
	return filepath.Join(append([]string{n.folder}, elements...)...)
}

// start runs the provisioner, with its defaults, until the end.
func (n *node) start(ctx context.Context) error {
	block := map[string]any{"hostDir": n.path(blockClass), "volumeMode": "Block"}
	if n.cleaner != nil {
		block["blockCleanerCommand"] = n.cleaner
	}
	if err := n.process().Configure(map[string]any{"minResyncPeriod": n.resync.String(), "storageClassMap": map[string]any{
		tmpfsClass: map[string]any{"hostDir": n.path(tmpfsClass)}, ext4Class: map[string]any{"hostDir": n.path(ext4Class)}, blockClass: block,
	}}); err != nil {
		return err
	}
	if err := os.WriteFile(n.path("fstab"), nil, 0o600); err != nil {
		return err
	}
	if _, err := n.process().Login(ctx); err != nil {
		return err
	}
	address, err := parts.FreeAddress(ctx)
	if err != nil {
		return err
	}
	binary, args := n.group.wrap(n.binary, []string{
		"--kubeconfig=" + n.path("kubeconfig"), "--config=" + n.path("config"), "--state-dir=" + n.path("state"),
		"--kubelet-dir=" + n.path("kubelet"), "--host-fstab=" + n.path("fstab"), "--listen-address=" + address,
	})
	n.provisioner, err = n.cluster.StartProcess(cluster.ProcessOptions{
		Name: "provisioner", Binary: binary, Args: args, Env: []string{"MY_NODE_NAME=" + n.process().Node}, HealthURL: "http://" + address,
	})
	if err == nil {
		n.later(n.provisioner.Kill)
	}
	return err
}

// small is the size of disks whose size does not matter.
const small = "16M"

// prepare makes a disk, except for the last step that makes it appear in its
// folder, which it returns.
func (n *node) prepare(ctx context.Context, kind, name string) (appear func() error, err error) {
	path := n.path(kind, name)
	if kind != blockClass {
		if err := os.Mkdir(path, 0o755); err != nil {
			return nil, err
		}
	}
	if kind == tmpfsClass {
		return func() error { return n.mount("tmpfs", path, "tmpfs", "size="+small) }, nil
	}
	device, err := n.attach(ctx, name+"-"+kind, small)
	if err != nil {
		return nil, err
	}
	if kind == blockClass {
		return func() error { return os.Symlink(device, path) }, nil
	}
	_, err = source.Output(ctx, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
	return func() error { return n.mount(device, path, "ext4", "") }, err
}

func (n *node) mount(from, to, filesystem, options string) error {
	if err := unix.Mount(from, to, filesystem, 0, options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", from, to, err)
	}
	n.later(func() error {
		err := unix.Unmount(to, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(to, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", to, err)
		}
		return nil
	})
	return nil
}

// attach makes a sparse file and attaches it to a loop device, past the page cache as
// disks are.
func (n *node) attach(ctx context.Context, name, size string) (device string, err error) {
	image := n.path("images", name)
	if _, err := source.Output(ctx, "truncate", "--size="+size, image); err != nil {
		return "", err
	}
	device, err = source.Output(ctx, "losetup", "--find", "--show", "--direct-io=on", image)
	if err != nil {
		return "", err
	}
	n.devices = append(n.devices, device)
	n.later(func() error {
		_, err := source.Output(context.Background(), "losetup", "--detach", device)
		return err
	})
	return device, nil
}
