// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strconv"
	"strings"

	v1alpha1 "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/storagemap"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// capacities prints what CSI drivers can provision.
func (m mapPrinter) capacities(all []v1alpha1.StorageMapCapacity, by storagemap.By) {
	if len(all) == 0 {
		return
	}
	var places []v1alpha1.StorageMapPlace
	for _, c := range all {
		places = append(places, c.StorageMapPlace)
	}
	place := placeColumns(by, places)
	table := [][]string{append(place.headers(), "CLASS", "AVAILABLE", "LARGEST", "NOTES")}
	for _, c := range all {
		note := nodeStates[c.NodeState]
		if p := c.Provisioning; p.Volumes > 0 {
			note = strings.TrimPrefix(fmt.Sprintf("%s, %s being provisioned (%s)", note, format.Count(p.Volumes, "volume"), format.Size(p.Bytes)), ", ")
		}
		table = append(table, append(place.cells(c.StorageMapPlace), c.Class, optionalSize(c.Bytes), optionalSize(c.LargestBytes), note))
	}
	fmt.Fprintln(m, "\nCapacity that CSI drivers report:")
	m.table(table)
}

func optionalSize(bytes *int64) string {
	if bytes == nil {
		return "unknown"
	}
	return format.Size(*bytes)
}

// network prints the volumes that every node can use.
func (m mapPrinter) network(all []v1alpha1.StorageMapNetwork) {
	if len(all) == 0 {
		return
	}
	var parts []string
	for _, n := range all {
		class := "without a class"
		if n.Class != "" {
			class = "of class " + n.Class
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s, %d bound)", n.Total.Volumes, class, format.Size(n.Total.Bytes), n.Bound.Volumes))
	}
	fmt.Fprintln(m)
	m.paragraph("Volumes that every node can use: "+strings.Join(parts, ", ")+".", "")
}

// localDisks prints the LocalDisks that no class has.
func (m mapPrinter) localDisks(all []v1alpha1.StorageMapLocalDisks, by storagemap.By) {
	if len(all) == 0 {
		return
	}
	var places []v1alpha1.StorageMapPlace
	for i := range all {
		places = append(places, all[i].StorageMapPlace)
	}
	place := placeColumns(by, places)
	table := [][]string{append(place.headers(), "ELIGIBLE", "LARGEST", "INELIGIBLE", "MISSING", "DEGRADED", "FAILING")}
	for i := range all {
		d := &all[i]
		eligible, largest := "0", ""
		if d.Eligible > 0 {
			eligible, largest = fmt.Sprintf("%s (%d)", format.Size(d.EligibleBytes), d.Eligible), format.Size(d.LargestEligibleBytes)
		}
		table = append(table, append(place.cells(d.StorageMapPlace), eligible, largest, strconv.Itoa(d.Ineligible), strconv.Itoa(d.Missing), strconv.Itoa(d.Degraded), strconv.Itoa(d.Failing)))
	}
	fmt.Fprintln(m, "\nDisks that no class has (kubectl get localdisks):")
	m.table(table)
}

// trouble prints the disks that need an administrator.
func (m mapPrinter) trouble(all []v1alpha1.StorageMapDisk) {
	table := [][]string{{"NODE", "DISK", "STATE", "REASON", "CLAIM"}}
	more := 0
	for _, d := range all {
		switch {
		case !d.Trouble:
		case len(table) > maxListed:
			more++
		default:
			name := d.Volume
			if d.Name != "" {
				name = d.Class + "/" + d.Name
			}
			table = append(table, []string{d.Node, name, d.State, d.Reason, d.Claim})
		}
	}
	if len(table) == 1 {
		return
	}
	fmt.Fprintln(m, "\nDisks that need an administrator (kubectl stowage why disk NODE/CLASS/NAME):")
	m.table(table)
	m.more(more)
}

// waiting prints the pods that wait.
func (m mapPrinter) waiting(all []v1alpha1.WaitingPod) {
	if len(all) == 0 {
		return
	}
	table := [][]string{{"POD", "WAITS", "CLAIMS", "REASON"}}
	if m.now.IsZero() {
		table[0][1] = "SINCE"
	}
	for _, pod := range all[:min(len(all), maxListed)] {
		var claims []string
		for _, c := range pod.Claims {
			switch {
			case c.Missing:
				claims = append(claims, c.Name+" (missing)")
			default:
				claims = append(claims, fmt.Sprintf("%s (%s %s)", c.Name, format.Size(c.Bytes), cell(c.Class)))
			}
		}
		message, _, _ := strings.Cut(pod.Message, " preemption:")
		table = append(table, []string{pod.Namespace + "/" + pod.Name, format.Age(pod.Since.Time, m.now), format.List(claims, 2), message})
	}
	fmt.Fprintln(m, "\nPods that wait for storage (kubectl stowage why pod NAME -n NAMESPACE):")
	m.table(table)
	m.more(len(all) - min(len(all), maxListed))
}

func (m mapPrinter) more(n int) {
	if n > 0 {
		fmt.Fprintf(m, "and %d more; -o json has all\n", n)
	}
}

// maxIdentity is how much of an identity the table has, without the machine; -o json has all.
const maxIdentity = 60

// disks prints all disks.
func (m mapPrinter) disks(all []v1alpha1.StorageMapDisk) {
	if len(all) == 0 {
		m.paragraph("There are no disks and no volumes of a single node.", "")
		return
	}
	table := [][]string{{"NODE", "CLASS", "PATH", "SIZE", "STATE", "REASON", "VOLUME", "CLAIM", "POD", "IDENTITY"}}
	for _, d := range all {
		identity := []rune(disk.Identity(d.Identity).Name())
		if len(identity) > maxIdentity {
			identity = append(identity[:maxIdentity-1], '…')
		}
		table = append(table, []string{d.Node, d.Class, d.Path, format.Size(d.Bytes), d.State, d.Reason, d.Volume, d.Claim, format.List(d.Pods, 1), string(identity)})
	}
	m.table(table)
}
