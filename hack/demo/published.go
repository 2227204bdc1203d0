// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/provisioners"
)

var (
	// provisionerNodes are the nodes with a provisioner.
	provisionerNodes = []string{"node-a", "node-b", "node-c"}
	// diskClasses are the classes of published volumes. Each node has a disk of each class.
	diskClasses = []string{"local-data", "local-log"}
)

// publishDisks adds disks and provisioners to nodes, and prints the volumes.
func publishDisks(ctx context.Context, d *demo) (err error) {
	if err := d.create(ctx, "published.yaml"); err != nil {
		return err
	}
	for _, class := range diskClasses {
		if err := provisioners.AllowClass(ctx, d.cluster.Client(), class); err != nil {
			return err
		}
	}
	// Unlike /tmp, it is of a kind that provisioners publish also in containers.
	if d.disks, err = os.MkdirTemp(cmp.Or(os.Getenv("TMPDIR"), "/dev/shm"), "stowage-demo-disks-"); err != nil {
		return fmt.Errorf("make a folder for disks (set TMPDIR to one on a local file system): %w", err)
	}
	for _, node := range provisionerNodes {
		if err := d.startProvisioner(ctx, node); err != nil {
			return fmt.Errorf("start the provisioner of %s: %w", node, err)
		}
	}
	s, err := d.allPublished(ctx)
	if err != nil {
		return err
	}
	table := newTable("NODE", "DISK", "VOLUME", "SIZE")
	for _, pv := range s.published(v1.VolumeAvailable) {
		table.row(nodeOf(pv), diskOf(pv), short(pv.Name), pv.Spec.Capacity.Storage().String())
	}
	return table.Flush()
}

// allPublished waits until each disk is an Available volume.
func (d *demo) allPublished(ctx context.Context) (state, error) {
	return d.until(ctx, "all disks to be published", func(s state) error {
		if got, want := len(s.published(v1.VolumeAvailable)), len(provisionerNodes)*len(diskClasses); got != want {
			return fmt.Errorf("%d volumes are Available, want %d", got, want)
		}
		return nil
	})
}

// startProvisioner makes the disks of a node and starts its provisioner.
func (d *demo) startProvisioner(ctx context.Context, node string) error {
	folder := filepath.Join(d.disks, node)
	classes := map[string]any{}
	for _, class := range diskClasses {
		if err := os.MkdirAll(filepath.Join(folder, class, "disk1"), 0o755); err != nil {
			return err
		}
		classes[class] = map[string]any{"hostDir": filepath.Join(folder, class), "allowDirectories": true, "directoryPattern": "disk*"}
	}
	p := provisioners.Process{Cluster: d.cluster, Binary: d.programs.provisioner, Node: node, Folder: filepath.Join(folder, "provisioner")}
	if err := p.MakeFolders(); err != nil {
		return err
	}
	if err := p.Configure(map[string]any{"storageClassMap": classes}); err != nil {
		return err
	}
	if _, err := p.Login(ctx); err != nil {
		return err
	}
	args, err := hostArgs(p.Folder)
	if err != nil {
		return err
	}
	_, err = p.Start(args...)
	return err
}

// hostArgs makes copies of /proc and /sys in a folder that a user other than root may read, and
// returns the provisioner's arguments for them. Only root may read what process 1 has mounted, and
// the backing files of loop devices. Neither concerns new folders.
func hostArgs(folder string) ([]string, error) {
	proc, sys := filepath.Join(folder, "proc"), filepath.Join(folder, "sys")
	links := map[string]string{
		filepath.Join(proc, "1/mountinfo"): "/proc/self/mountinfo",
		filepath.Join(proc, "swaps"):       "/proc/swaps",
		filepath.Join(sys, "dev"):          "/sys/dev",
		filepath.Join(sys, "fs"):           "/sys/fs",
	}
	devices, err := filepath.Glob("/sys/class/block/*")
	if err != nil {
		return nil, err
	}
	for _, device := range devices {
		if !strings.HasPrefix(filepath.Base(device), "loop") {
			links[filepath.Join(sys, "class/block", filepath.Base(device))] = device
		}
	}
	for link, to := range links {
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return nil, err
		}
		if err := os.Symlink(to, link); err != nil {
			return nil, err
		}
	}
	return []string{"--host-proc=" + proc, "--host-sys=" + sys}, nil
}

// published are the volumes of the provisioners in a phase, by node and path.
func (s state) published(phase v1.PersistentVolumePhase) []*v1.PersistentVolume {
	volumes := slices.DeleteFunc(slices.Collect(maps.Values(s.volumes)), func(pv *v1.PersistentVolume) bool {
		return nodeOf(pv) == "" || pv.DeletionTimestamp != nil || pv.Status.Phase != phase
	})
	return slices.SortedFunc(slices.Values(volumes), func(a, b *v1.PersistentVolume) int {
		return strings.Compare(localpv.PathOf(a), localpv.PathOf(b))
	})
}

// placeShop places a StatefulSet on published volumes, and writes a file to each.
func placeShop(ctx context.Context, d *demo) error {
	if err := place("shop.yaml", "shop")(ctx, d); err != nil {
		return err
	}
	s, err := read(ctx, d.cluster.Client())
	if err != nil {
		return err
	}
	for _, pv := range s.published(v1.VolumeBound) {
		if err := os.WriteFile(dataOf(pv), []byte("data of the first StatefulSet\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// releaseShop deletes the StatefulSet and its claims, and waits until its disks, which are all
// there are, are clean and published again.
func releaseShop(ctx context.Context, d *demo) error {
	if err := d.cluster.Client().AppsV1().StatefulSets(namespace).Delete(ctx, "shop", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := d.gone(ctx, "shop"); err != nil {
		return err
	}
	begin := time.Now()
	err := d.cluster.Client().CoreV1().PersistentVolumeClaims(namespace).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=shop"})
	if err != nil {
		return err
	}
	s, err := d.allPublished(ctx)
	if err != nil {
		return err
	}
	again, disks := time.Since(begin), s.published(v1.VolumeAvailable)
	for _, pv := range disks {
		if _, err := os.Lstat(dataOf(pv)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s of %s was published again, and its former pod's data should not exist: %w", diskOf(pv), nodeOf(pv), cmp.Or(err, os.ErrExist))
		}
	}
	d.print("%d ms after the deletion of the claims, %d disks are clean and published again.", again.Milliseconds(), len(disks))
	return nil
}

// nodeOf is the node whose provisioner published the volume; empty for other volumes.
func nodeOf(pv *v1.PersistentVolume) string { return pv.Annotations[wellknown.NodeNameAnnotation] }

// diskOf is class and name of the volume's disk.
func diskOf(pv *v1.PersistentVolume) string {
	return pv.Spec.StorageClassName + "/" + filepath.Base(localpv.PathOf(pv))
}

// dataOf is the path of the file that the demo writes to a volume.
func dataOf(pv *v1.PersistentVolume) string { return filepath.Join(localpv.PathOf(pv), "data.txt") }

// short is the beginning of a volume's name, enough to distinguish it.
func short(volume string) string { return volume[:min(len(volume), len("local-pv-node-a-12345678"))] }
