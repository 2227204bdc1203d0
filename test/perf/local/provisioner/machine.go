// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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

// machine is a node with disks, and its provisioner.
type machine struct {
	setup       *Setup
	name        string
	cleaner     []string // of blockClass; nil: the default
	resync      time.Duration
	binary      string // of the provisioner
	group       *group // that the provisioner runs in; nil: this process's
	provisioner *cluster.Process
	devices     []string // loop devices
}

// newMachine adds a node without disks.
func (s *Setup) newMachine(ctx context.Context, name string) (*machine, error) {
	m := &machine{setup: s, name: name, binary: s.Provisioner, resync: 5 * time.Minute}
	for _, sub := range append([]string{"images"}, classes...) {
		if err := os.MkdirAll(m.path(sub), 0o755); err != nil {
			return nil, err
		}
	}
	if err := m.process().MakeFolders(); err != nil {
		return nil, err
	}
	if err := s.cluster.AddNodes(ctx, cluster.NodeSet{Prefix: name, Count: 1}.Nodes()...); err != nil {
		return nil, err
	}
	for _, kind := range classes {
		// Its claims are bound without a pod.
		class := builders.MakeClass(m.class(kind)).Immediate().ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).Obj()
		if _, err := s.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("create class %s: %w", class.Name, err)
		}
		if err := provisioners.AllowClass(ctx, s.client, m.class(kind)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// process is the provisioner.
func (m *machine) process() provisioners.Process {
	return provisioners.Process{Cluster: m.setup.cluster, Binary: m.binary, Node: m.node(), Folder: m.path()}
}

func (m *machine) class(kind string) string { return m.name + "-" + kind }

// node is the name of the Node.
func (m *machine) node() string { return m.name + "-0" }

func (m *machine) path(elements ...string) string {
	return m.setup.path(append([]string{m.name}, elements...)...)
}

// slot is the path of a disk.
func (m *machine) slot(kind, name string) string { return m.path(kind, name) }

// configure writes the provisioner's configuration.
func (m *machine) configure() error {
	storageClasses := map[string]any{}
	for _, kind := range classes {
		class := map[string]any{"hostDir": m.path(kind)}
		if kind == blockClass {
			class["volumeMode"] = "Block"
			if m.cleaner != nil {
				class["blockCleanerCommand"] = m.cleaner
			}
		}
		storageClasses[m.class(kind)] = class
	}
	return errors.Join(
		m.process().Configure(map[string]any{"storageClassMap": storageClasses, "minResyncPeriod": m.resync.String()}),
		os.WriteFile(m.path("fstab"), nil, 0o600),
	)
}

// start runs the provisioner, with its defaults, until the end of the setup.
func (m *machine) start(ctx context.Context) error {
	if err := m.configure(); err != nil {
		return err
	}
	if _, err := m.process().Login(ctx); err != nil {
		return err
	}
	address, err := parts.FreeAddress(ctx)
	if err != nil {
		return err
	}
	binary, args := m.group.wrap(m.binary, []string{
		"--kubeconfig=" + m.path("kubeconfig"), "--config=" + m.path("config"), "--state-dir=" + m.path("state"),
		"--kubelet-dir=" + m.path("kubelet"), "--host-fstab=" + m.path("fstab"), "--listen-address=" + address,
	})
	m.provisioner, err = m.setup.cluster.StartProcess(cluster.ProcessOptions{
		Name: "provisioner-" + m.name, Binary: binary, Args: args, Env: []string{"MY_NODE_NAME=" + m.node()}, HealthURL: "http://" + address,
	})
	if err != nil {
		return err
	}
	m.setup.later(m.provisioner.Kill)
	return nil
}

// scans are the provisioner's counts of scans, and their total seconds.
func (m *machine) scans(ctx context.Context) (count int, seconds float64, err error) {
	families, err := source.Metrics(ctx, m.provisioner)
	if err != nil {
		return 0, 0, err
	}
	const name = "stowage_provisioner_scan_duration_seconds"
	for _, metric := range families[name].GetMetric() {
		histogram := metric.GetHistogram()
		return int(histogram.GetSampleCount()), histogram.GetSampleSum(), nil
	}
	return 0, 0, fmt.Errorf("the provisioner's metrics have no %s", name)
}

// small is the size of disks whose size does not matter.
const small = "16M"

// prepare makes a disk, except for the last step that makes it appear in its
// folder, which it returns.
func (m *machine) prepare(ctx context.Context, kind, name string) (appear func() error, err error) {
	slot := m.slot(kind, name)
	if kind == blockClass {
		device, err := m.attach(ctx, name+"-raw", small)
		if err != nil {
			return nil, err
		}
		return func() error { return os.Symlink(device, slot) }, nil
	}
	if err := os.Mkdir(slot, 0o755); err != nil {
		return nil, err
	}
	if kind == tmpfsClass {
		return func() error { return m.mount("tmpfs", slot, "tmpfs", "size="+small) }, nil
	}
	device, err := m.attach(ctx, name+"-ext4", small)
	if err != nil {
		return nil, err
	}
	if _, err := command(ctx, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device); err != nil {
		return nil, err
	}
	return func() error { return m.mount(device, slot, "ext4", "") }, nil
}

// appear makes a disk at once.
func (m *machine) appear(ctx context.Context, kind, name string) error {
	do, err := m.prepare(ctx, kind, name)
	if err != nil {
		return err
	}
	return do()
}

func (m *machine) mount(from, to, filesystem, options string) error {
	if err := unix.Mount(from, to, filesystem, 0, options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", from, to, err)
	}
	m.setup.later(func() error { return unmount(to) })
	return nil
}

func unmount(path string) error {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// attach makes a sparse file and attaches it to a loop device, past the page cache as
// disks are.
func (m *machine) attach(ctx context.Context, name, size string) (device string, err error) {
	image := m.path("images", name)
	if _, err := command(ctx, "truncate", "--size="+size, image); err != nil {
		return "", err
	}
	device, err = command(ctx, "losetup", "--find", "--show", "--direct-io=on", image)
	if err != nil {
		return "", err
	}
	m.devices = append(m.devices, device)
	m.setup.later(func() error {
		_, err := command(context.Background(), "losetup", "--detach", device)
		return err
	})
	return device, nil
}

// command runs a program and returns its output.
func command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// group is a cgroup that counts memory. A nil one is none: it counts nothing.
type group struct {
	folder string
	file   string // that has the peak
}

// newGroup makes a cgroup in the hierarchy that counts memory, of version 2 or 1, until the
// cluster ends. It is nil where none is usable.
func newGroup(c *cluster.Cluster, name string) (*group, error) {
	const top = "/sys/fs/cgroup"
	g := &group{folder: filepath.Join(top, "memory", name), file: "memory.max_usage_in_bytes"}
	if _, err := os.Stat(filepath.Join(top, "cgroup.controllers")); err == nil {
		g = &group{folder: filepath.Join(top, name), file: "memory.peak"}
		// Groups below the root count only with the controllers that the root delegates.
		_ = os.WriteFile(filepath.Join(top, "cgroup.subtree_control"), []byte("+memory"), 0o600)
	}
	err := os.Mkdir(g.folder, 0o755)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EROFS):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	c.Prune(g.folder)
	return g, nil
}

// wrap is a command that runs another one in the group from its first page on.
func (g *group) wrap(binary string, args []string) (string, []string) {
	if g == nil {
		return binary, args
	}
	return "/bin/sh", append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, g.folder, binary}, args...)
}

// peak is the most memory that the group was charged for, in bytes; 0 without a counter.
func (g *group) peak() (int64, error) {
	if g == nil {
		return 0, nil
	}
	text, err := os.ReadFile(filepath.Join(g.folder, g.file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
