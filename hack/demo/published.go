// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	v1 "k8s.io/api/core/v1"

	stowagev1alpha1 "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/provisioners"
)

// provisionerNodes are the nodes with a provisioner.
var provisionerNodes = []string{"node-a", "node-b", "node-c"}

// publishDisks adds disks and provisioners to nodes, and prints the volumes.
func publishDisks(ctx context.Context, d *demo) error {
	if err := d.apply(ctx, "published.yaml"); err != nil {
		return err
	}
	for _, class := range []string{dataClass, logClass} {
		if err := provisioners.AllowClass(ctx, d.cluster.Client(), class); err != nil {
			return err
		}
	}
	var err error
	if d.disks, err = newDisks(d.folders); err != nil {
		return err
	}
	d.printDisks()
	for _, node := range provisionerNodes {
		if err := d.disks.add(node); err != nil {
			return err
		}
		if err := d.startProvisioner(ctx, node); err != nil {
			return fmt.Errorf("start the provisioner of %s: %w", node, err)
		}
	}
	if err := d.printPublished(ctx); err != nil {
		return err
	}
	return d.printSkipped(ctx)
}

func (d *demo) printDisks() {
	if d.disks.real {
		d.print("Below %s, each node has a mounted file system of class %s and a loop device of class %s.",
			d.disks.folder, dataClass, logClass)
		return
	}
	d.print("Below %s, each node has plain folders instead of disks (%s). They share a file system, "+
		"so each volume is as big as all of it.", d.disks.folder, d.disks.why)
}

// startProvisioner starts the provisioner of a node.
func (d *demo) startProvisioner(ctx context.Context, node string) error {
	a := provisioners.Process{Cluster: d.cluster, Binary: d.provisioner, Node: node, Folder: filepath.Join(d.disks.node(node), "provisioner")}
	if err := a.MakeFolders(); err != nil {
		return err
	}
	data := map[string]any{"hostDir": filepath.Join(d.disks.node(node), dataClass)}
	log := map[string]any{"hostDir": filepath.Join(d.disks.node(node), logClass)}
	var args []string
	if d.disks.real {
		log["volumeMode"] = "Block"
	} else {
		for _, class := range []map[string]any{data, log} {
			class["allowDirectories"], class["directoryPattern"] = true, "disk*"
		}
		view, err := viewOfUser(a.Folder)
		if err != nil {
			return fmt.Errorf("make a view of the machine: %w", err)
		}
		args = append(args, view...)
	}
	if err := a.Configure(map[string]any{"storageClassMap": map[string]any{dataClass: data, logClass: log}}); err != nil {
		return err
	}
	if _, err := a.Login(ctx); err != nil {
		return err
	}
	_, err := a.Start(args...)
	return err
}

// printPublished waits for the volumes of the provisioners and prints them.
func (d *demo) printPublished(ctx context.Context) error {
	table := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "%sNODE\tDISK\tKIND\tVOLUME\tSIZE\n", indent)
	for _, node := range provisionerNodes {
		report, err := d.report(ctx, node, func(r *stowagev1alpha1.LocalDiskReport) bool {
			return count(r, stowagev1alpha1.EntryAvailable) == 2 && count(r, stowagev1alpha1.EntrySkipped) == skippedOn(node)
		})
		if err != nil {
			return err
		}
		for _, entry := range report.Status.Entries {
			if entry.State != stowagev1alpha1.EntryAvailable {
				continue
			}
			pv, err := d.watch.volumes.Get(entry.Volume)
			if err != nil {
				return err
			}
			size := pv.Spec.Capacity[v1.ResourceStorage]
			fmt.Fprintf(table, "%s%s\t%s/%s\t%s\t%s\t%s\n", indent, node, entry.Class, entry.Name, entry.Kind, short(entry.Volume), size.String())
		}
	}
	return table.Flush()
}

// short shortens the name of a published volume: it keeps the beginning of its hash.
func short(volume string) string {
	const hash, enough = 32, 8
	if len(volume) <= len("local-pv-")+hash {
		return volume
	}
	return volume[:len(volume)-hash+enough] + ".."
}
