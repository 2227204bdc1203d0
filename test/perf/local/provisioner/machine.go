// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	address     string // of its metrics
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
		if err := s.makeClass(ctx, m.class(kind)); err != nil {
			return nil, err
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

// makeClass makes a class whose claims are bound without a pod.
func (s *Setup) makeClass(ctx context.Context, name string) error {
	class := builders.MakeClass(name).Immediate().ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).Obj()
	if _, err := s.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create class %s: %w", name, err)
	}
	return nil
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
	_, err := m.process().Login(ctx)
	if err != nil {
		return err
	}
	if m.address, err = parts.FreeAddress(ctx); err != nil {
		return err
	}
	binary, args := m.group.wrap(m.binary, []string{
		"--kubeconfig=" + m.path("kubeconfig"), "--config=" + m.path("config"), "--state-dir=" + m.path("state"),
		"--kubelet-dir=" + m.path("kubelet"), "--host-fstab=" + m.path("fstab"), "--listen-address=" + m.address,
	})
	m.provisioner, err = m.setup.cluster.StartCommand("provisioner-"+m.name, binary, args, []string{"MY_NODE_NAME=" + m.node()})
	if err != nil {
		return err
	}
	m.setup.later(m.provisioner.Kill)
	return nil
}

// scans are the provisioner's counts of scans, and their total seconds.
func (m *machine) scans(ctx context.Context) (count int, seconds float64, err error) {
	families, err := source.Metrics(ctx, "http://"+m.address+"/metrics")
	if err != nil {
		return 0, 0, fmt.Errorf("provisioner: %w", err)
	}
	const name = "stowage_provisioner_scan_duration_seconds"
	for _, metric := range families[name].GetMetric() {
		histogram := metric.GetHistogram()
		return int(histogram.GetSampleCount()), histogram.GetSampleSum(), nil
	}
	return 0, 0, fmt.Errorf("the provisioner's metrics have no %s", name)
}

// logTail is the end of the provisioner's log, for errors.
func (m *machine) logTail() string {
	if m.provisioner == nil {
		return ""
	}
	text, err := os.ReadFile(filepath.Clean(m.provisioner.LogFile()))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
