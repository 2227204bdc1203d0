// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/storagemap"
)

// Limits of the map.
const (
	maxMapNodes = 50 // with more, zones are summed
	maxListed   = 20 // pods that wait, disks in trouble
	extremes    = 5  // nodes with the least, and with the most free storage, by class
	maxClasses  = 4  // classes whose extremes are listed
)

// mapPrinter prints a map.
type mapPrinter struct {
	*printer
	symbols symbols
	now     time.Time
}

// print prints a map by node, and the sums to show instead of its rows, which may be its own.
func (m mapPrinter) print(all, sums *v1alpha1.StorageMap, by storagemap.By) {
	m.summary(all)
	if len(sums.Rows) > 0 {
		fmt.Fprintln(m)
		m.rows(sums.Rows, by)
	}
	if all != sums {
		m.extremes(all)
	}
	m.capacities(sums.Capacities, by)
	m.network(all.NetworkVolumes)
	m.localDisks(sums.LocalDisks, by)
	m.trouble(all.Disks)
	m.waiting(all.WaitingPods)
	m.unseen(all.Unseen)
}

// summary prints the totals in a sentence.
func (m mapPrinter) summary(all *v1alpha1.StorageMap) {
	t := all.Total
	if t.Total.Volumes == 0 {
		text := "There are no volumes with node affinity."
		if t.DisksWithoutVolume > 0 {
			text = fmt.Sprintf("There are no volumes with node affinity, and %s without a volume.", format.Count(t.DisksWithoutVolume, "disk"))
		}
		m.paragraph(text, "")
		return
	}
	var parts []string
	if t.Free.Volumes == 0 {
		parts = append(parts, "nothing is free")
	} else {
		parts = append(parts, fmt.Sprintf("%s free (%s, the largest %s)", format.Size(t.Free.Bytes), format.Count(t.Free.Volumes, "volume"), format.Size(t.LargestFreeBytes)))
	}
	for _, part := range []struct {
		amount v1alpha1.StorageMapAmount
		word   string
	}{{t.Bound, "bound"}, {t.Reserved, "reserved"}, {t.Cleaning, "being cleaned"}, {t.Other, "not usable"}} {
		if part.amount.Volumes > 0 {
			parts = append(parts, fmt.Sprintf("%s %s (%d)", format.Size(part.amount.Bytes), part.word, part.amount.Volumes))
		}
	}
	text := fmt.Sprintf("%s on %s, %s: %s.", format.Count(t.Total.Volumes, "volume"), format.Count(t.Nodes, "node"), format.Size(t.Total.Bytes), strings.Join(parts, ", "))
	switch n := t.DisksInTrouble; {
	case n == 1:
		text += " 1 disk needs an administrator."
	case n > 1:
		text += fmt.Sprintf(" %d disks need an administrator.", n)
	}
	switch n := len(all.WaitingPods); {
	case n == 1:
		text += " 1 pod waits for storage."
	case n > 1:
		text += fmt.Sprintf(" %d pods wait for storage.", n)
	}
	m.paragraph(text, "")
}

// layout is which columns a terminal has space for.
type layout struct {
	bar           int // columns of the bar; 0 for none
	zone, largest bool
}

// layouts are tried in this order.
var layouts = []layout{{20, true, true}, {10, true, true}, {0, true, true}, {0, true, false}, {0, false, false}}

// rows prints a table with a bar for each row, as wide as the terminal allows.
func (m mapPrinter) rows(rows []v1alpha1.StorageMapRow, by storagemap.By) {
	for i, l := range layouts {
		if by == storagemap.ByZone {
			l.zone = true
		}
		table := m.rowTable(rows, by, l)
		if i < len(layouts)-1 && tableWidth(table)+minLastColumn > m.width {
			continue
		}
		m.table(table)
		if l.bar > 0 {
			m.paragraph("USE: "+m.symbols.legend(), "")
		}
		return
	}
}

// tableWidth is the width of all columns but the last.
func tableWidth(table [][]string) int {
	total := 0
	for column := range len(table[0]) - 1 {
		widest := 0
		for _, row := range table {
			widest = max(widest, len([]rune(row[column])))
		}
		total += widest + 2
	}
	return total
}

func (m mapPrinter) rowTable(rows []v1alpha1.StorageMapRow, by storagemap.By, l layout) [][]string {
	var places []v1alpha1.StorageMapPlace
	for _, r := range rows {
		places = append(places, r.StorageMapPlace)
	}
	place := placeColumns(by, places)
	place.zone = place.zone && l.zone
	line := func(place []string, class, total, bound, free, largest, bar, notes string) []string {
		cells := append(place, class, total, bound, free)
		if l.largest {
			cells = append(cells, largest)
		}
		if l.bar > 0 {
			cells = append(cells, bar)
		}
		return append(cells, notes)
	}
	table := [][]string{line(place.headers(), "CLASS", "TOTAL", "BOUND", "FREE", "LARGEST", "USE", "NOTES")}
	for i := range rows {
		r := &rows[i]
		largest := ""
		if r.Free.Volumes > 0 {
			largest = format.Size(r.LargestFreeBytes)
		}
		table = append(table, line(place.cells(r.StorageMapPlace), r.Class, amountCell(r.Total), amountCell(r.Bound), amountCell(r.Free), largest, m.symbols.bar(r, l.bar), notes(r)))
	}
	return table
}

var nodeStates = map[v1alpha1.NodeState]string{
	v1alpha1.NodeMissing:  "the node does not exist",
	v1alpha1.NodeNotReady: "the node is not Ready",
	v1alpha1.NodeCordoned: "the node is cordoned",
}

// notes are what a row has besides bound and free volumes.
func notes(r *v1alpha1.StorageMapRow) string {
	var all []string
	if r.NodeState != "" {
		all = append(all, nodeStates[r.NodeState])
	}
	for _, part := range []struct {
		amount v1alpha1.StorageMapAmount
		word   string
	}{{r.Reserved, "reserved"}, {r.Cleaning, "being cleaned"}, {r.Other, "not usable"}} {
		if part.amount.Volumes > 0 {
			all = append(all, fmt.Sprintf("%d %s (%s)", part.amount.Volumes, part.word, format.Size(part.amount.Bytes)))
		}
	}
	if r.DisksInTrouble > 0 {
		all = append(all, format.Count(r.DisksInTrouble, "disk")+" in trouble")
	}
	if r.DisksWithoutVolume > 0 {
		all = append(all, format.Count(r.DisksWithoutVolume, "disk")+" without volume")
	}
	return strings.Join(all, ", ")
}

func amountCell(a v1alpha1.StorageMapAmount) string {
	if a.Volumes == 0 {
		return "0"
	}
	return fmt.Sprintf("%s (%d)", format.Size(a.Bytes), a.Volumes)
}

// place is which columns say where storage is.
type place struct {
	zone, node, nodes bool
}

func placeColumns(by storagemap.By, places []v1alpha1.StorageMapPlace) place {
	return place{
		zone:  by != storagemap.ByClass && slices.ContainsFunc(places, func(p v1alpha1.StorageMapPlace) bool { return p.Zone != "" }),
		node:  by == storagemap.ByNode,
		nodes: by != storagemap.ByNode,
	}
}

func (p place) headers() []string {
	var all []string
	if p.zone {
		all = append(all, "ZONE")
	}
	if p.node {
		all = append(all, "NODE")
	}
	if p.nodes {
		all = append(all, "NODES")
	}
	return all
}

func (p place) cells(of v1alpha1.StorageMapPlace) []string {
	var all []string
	if p.zone {
		all = append(all, of.Zone)
	}
	switch {
	case p.nodes:
		all = append(all, strconv.Itoa(of.Nodes))
	case of.Node != "":
		all = append(all, of.Node)
	case of.Nodes > 0:
		all = append(all, fmt.Sprintf("any of %d", of.Nodes))
	default:
		all = append(all, "")
	}
	return all
}

// extremes prints the nodes of each class with the least and the most free storage.
func (m mapPrinter) extremes(all *v1alpha1.StorageMap) {
	classes := map[string][]v1alpha1.StorageMapRow{}
	var names []string
	for _, r := range all.Rows {
		if r.Node == "" || r.Total.Volumes == 0 {
			continue
		}
		if classes[r.Class] == nil {
			names = append(names, r.Class)
		}
		classes[r.Class] = append(classes[r.Class], r)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(len(classes[b])-len(classes[a]), cmp.Compare(a, b)) })
	for _, name := range names[:min(len(names), maxClasses)] {
		rows := classes[name]
		if len(rows) <= 2*extremes {
			continue
		}
		slices.SortStableFunc(rows, func(a, b v1alpha1.StorageMapRow) int { return cmp.Compare(a.Free.Bytes, b.Free.Bytes) })
		fmt.Fprintf(m, "\nLeast and most free of class %s, of %d nodes:\n", cell(name), len(rows))
		m.rows(slices.Concat(rows[:extremes], rows[len(rows)-extremes:]), storagemap.ByNode)
	}
	fmt.Fprintln(m)
	m.paragraph(fmt.Sprintf("--by node shows all %d nodes; --class and --node select.", all.Total.Nodes), "")
}

// symbols are what bars are made of.
type symbols struct {
	bound, reserved, cleaning, other, free string
	left, right                            string
}

// symbolsOf returns block characters if the locale is UTF-8, else ASCII. Both differ in shape, not in colour.
func symbolsOf(env func(string) string) symbols {
	locale := strings.ToUpper(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	if strings.HasSuffix(locale, "UTF-8") || strings.HasSuffix(locale, "UTF8") {
		return symbols{bound: "█", reserved: "▓", cleaning: "▒", other: "×", free: "░"}
	}
	return symbols{bound: "#", reserved: "=", cleaning: "~", other: "x", free: ".", left: "[", right: "]"}
}

func (s symbols) legend() string {
	return fmt.Sprintf("%s bound, %s reserved, %s being cleaned, %s not usable, %s free", s.bound, s.reserved, s.cleaning, s.other, s.free)
}

// bar shows the shares of a row's bytes in a number of columns. A share that is not empty has at least one.
func (s symbols) bar(r *v1alpha1.StorageMapRow, columns int) string {
	columns -= len(s.left) + len(s.right)
	shares := []struct {
		amount v1alpha1.StorageMapAmount
		symbol string
	}{{r.Bound, s.bound}, {r.Reserved, s.reserved}, {r.Cleaning, s.cleaning}, {r.Other, s.other}, {r.Free, s.free}}
	widths, rest, largest := make([]int, len(shares)), columns, 0
	for i, share := range shares {
		if share.amount.Volumes == 0 || r.Total.Bytes <= 0 {
			continue
		}
		widths[i] = max(1, int(float64(share.amount.Bytes)/float64(r.Total.Bytes)*float64(columns)))
		rest -= widths[i]
		if share.amount.Bytes > shares[largest].amount.Bytes {
			largest = i
		}
	}
	if rest == columns {
		return ""
	}
	widths[largest] += rest // what rounding left, or took
	var bar strings.Builder
	bar.WriteString(s.left)
	for i, share := range shares {
		bar.WriteString(strings.Repeat(share.symbol, max(widths[i], 0)))
	}
	return bar.String() + s.right
}
