// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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
	var volumes []*v1.PersistentVolume
	if err := d.watch.until(ctx, "the provisioners publish a volume of each class", func() string {
		volumes = d.publishedVolumes(func(pv *v1.PersistentVolume) bool { return pv.Status.Phase == v1.VolumeAvailable })
		if want := len(provisionerNodes) * len(diskClasses); len(volumes) != want {
			return fmt.Sprintf("%d volumes are Available, want %d", len(volumes), want)
		}
		return ""
	}); err != nil {
		return err
	}
	table := newTable()
	fmt.Fprintf(table, "%sNODE\tDISK\tVOLUME\tSIZE\n", indent)
	for _, pv := range volumes {
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\n", indent, nodeOf(pv), diskOf(pv), short(pv.Name), pv.Spec.Capacity.Storage())
	}
	return table.Flush()
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
	p := provisioners.Process{Cluster: d.cluster, Binary: d.provisioner, Node: node, Folder: filepath.Join(folder, "provisioner")}
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

// publishedVolumes returns the selected volumes of the provisioners, by node and path.
func (d *demo) publishedVolumes(is func(*v1.PersistentVolume) bool) []*v1.PersistentVolume {
	all, _ := d.watch.volumes.List(labels.Everything()) // listers of informers do not fail
	all = slices.DeleteFunc(all, func(pv *v1.PersistentVolume) bool {
		return nodeOf(pv) == "" || pv.DeletionTimestamp != nil || !is(pv)
	})
	slices.SortFunc(all, func(a, b *v1.PersistentVolume) int { return strings.Compare(localpv.PathOf(a), localpv.PathOf(b)) })
	return all
}

// placeShop places a StatefulSet on published volumes, and writes a file to each.
func placeShop(ctx context.Context, d *demo) error {
	if err := place("shop.yaml")(ctx, d); err != nil {
		return err
	}
	for _, pv := range d.publishedVolumes(isBound) {
		if err := os.WriteFile(dataOf(pv), []byte("data of the first StatefulSet\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func isBound(pv *v1.PersistentVolume) bool { return pv.Status.Phase == v1.VolumeBound }

// releaseShop deletes the StatefulSet and its claims, and waits until its disks are clean and
// published again.
func releaseShop(ctx context.Context, d *demo) error {
	if err := d.cluster.Client().AppsV1().StatefulSets(namespace).Delete(ctx, "shop", metav1.DeleteOptions{}); err != nil {
		return err
	}
	pods, err := podsOf("shop.yaml")
	if err != nil {
		return err
	}
	for _, name := range pods {
		if err := d.watch.gone(ctx, name); err != nil {
			return err
		}
	}
	former := d.publishedVolumes(isBound)
	begin := time.Now()
	err = d.cluster.Client().CoreV1().PersistentVolumeClaims(namespace).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=shop"})
	if err != nil {
		return err
	}
	if err := d.watch.until(ctx, "released disks are published again", func() string {
		for _, pv := range former {
			if len(d.publishedVolumes(func(next *v1.PersistentVolume) bool { return replaces(next, pv) })) == 0 {
				return fmt.Sprintf("%s of %s has no new volume that is Available", diskOf(pv), nodeOf(pv))
			}
		}
		return ""
	}); err != nil {
		return err
	}
	again := time.Since(begin)
	for _, pv := range former {
		if _, err := os.Lstat(dataOf(pv)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s of %s was published again, and its former pod's data should not exist: %w", diskOf(pv), nodeOf(pv), cmp.Or(err, os.ErrExist))
		}
	}
	d.print("%d ms after the deletion of the claims, %d disks are clean and published again.", again.Milliseconds(), len(former))
	return nil
}

// replaces reports whether next is an Available volume on the disk of a former one.
func replaces(next, former *v1.PersistentVolume) bool {
	return next.UID != former.UID && localpv.PathOf(next) == localpv.PathOf(former) && next.Status.Phase == v1.VolumeAvailable
}

// nodeOf is the node whose provisioner published the volume; empty for other volumes.
func nodeOf(pv *v1.PersistentVolume) string { return pv.Annotations[wellknown.NodeNameAnnotation] }

// diskOf is class and name of the volume's disk.
func diskOf(pv *v1.PersistentVolume) string {
	return pv.Spec.StorageClassName + "/" + filepath.Base(localpv.PathOf(pv))
}

// dataOf is the path of the file that the demo writes to a volume.
func dataOf(pv *v1.PersistentVolume) string { return filepath.Join(localpv.PathOf(pv), "data.txt") }

// short shortens the name of a published volume: it keeps the beginning of its hash.
func short(volume string) string {
	const hash, enough = 32, 8
	if len(volume) <= len("local-pv-")+hash {
		return volume
	}
	return volume[:len(volume)-hash+enough] + ".."
}
