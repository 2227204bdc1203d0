// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
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
	site        *Site
	name        string
	cleaner     []string // of blockClass; nil: the default
	resync      time.Duration
	binary      string // of the provisioner
	group       *group // that the provisioner runs in; nil: this process's
	provisioner *cluster.Process
	address     string // of its metrics
}

// newMachine adds a node without disks.
func (s *Site) newMachine(ctx context.Context, name string) (*machine, error) {
	m := &machine{site: s, name: name, binary: s.Provisioner, resync: 5 * time.Minute}
	for _, sub := range append([]string{"config", "state", "images", "kubelet/pods"}, classes...) {
		if err := os.MkdirAll(m.path(sub), 0o755); err != nil {
			return nil, err
		}
	}
	if err := s.cluster.AddNodes(ctx, cluster.NodeSet{Prefix: name, Count: 1}.Nodes()...); err != nil {
		return nil, err
	}
	for _, class := range classes {
		if err := s.makeClass(ctx, m.class(class)); err != nil {
			return nil, err
		}
	}
	return m, s.allow(ctx, m.classes())
}

// makeClass makes a class whose claims are bound without a pod.
func (s *Site) makeClass(ctx context.Context, name string) error {
	class := builders.MakeClass(name).Immediate().ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).Obj()
	if _, err := s.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create class %s: %w", name, err)
	}
	return nil
}

func (m *machine) class(kind string) string { return m.name + "-" + kind }

func (m *machine) classes() []string {
	var names []string
	for _, kind := range classes {
		names = append(names, m.class(kind))
	}
	return names
}

// node is the name of the Node.
func (m *machine) node() string { return m.name + "-0" }

func (m *machine) path(elements ...string) string {
	return m.site.path(append([]string{m.name}, elements...)...)
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
	text, err := yaml.Marshal(storageClasses)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(m.path("config", "storageClassMap"), text, 0o600),
		os.WriteFile(m.path("config", "minResyncPeriod"), []byte(m.resync.String()), 0o600),
		os.WriteFile(m.path("fstab"), nil, 0o600),
	)
}

// start runs the provisioner, with its defaults, until the site's end.
func (m *machine) start(ctx context.Context) error {
	if err := m.configure(); err != nil {
		return err
	}
	kubeconfig := m.path("kubeconfig")
	if err := m.site.login(ctx, m.node(), kubeconfig); err != nil {
		return err
	}
	var err error
	if m.address, err = freeAddress(ctx); err != nil {
		return err
	}
	binary, args := m.group.wrap(m.binary, []string{
		"--kubeconfig=" + kubeconfig, "--config=" + m.path("config"), "--state-dir=" + m.path("state"),
		"--kubelet-dir=" + m.path("kubelet"), "--host-fstab=" + m.path("fstab"), "--listen-address=" + m.address,
	})
	m.provisioner, err = m.site.cluster.StartCommand("provisioner-"+m.name, binary, args, []string{"MY_NODE_NAME=" + m.node()})
	if err != nil {
		return err
	}
	m.site.later(m.provisioner.Kill)
	return nil
}

// freeAddress is an address without a listener.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
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
