// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page writes the tables of docs/benchmarks.md from the results in docs/benchmarks.
// The text around them is written by hand: a table is between the comments <!-- NAME --> and
// <!-- /NAME -->. It measures nothing.
package page

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"stowage.dev/stowage/test/perf/figures"
)

// Results is the folder of the results, Path the page, both from the top of the repository.
const (
	Results = "docs/benchmarks"
	Path    = "docs/benchmarks.md"
)

// Write writes the tables of the page at root, the top of the repository.
func Write(root string) error {
	file := filepath.Join(root, Path)
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := Fill(root, string(page))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// Fill is the page with the tables of the stored results.
func Fill(root, page string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, Results, "*.txt"))
	if err != nil {
		return "", err
	}
	set, err := figures.Load(files...)
	if err != nil {
		return "", err
	}
	for _, t := range tables {
		before, _, after, err := Split(page, t.name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", Path, err)
		}
		page = before + t.write(set) + after
	}
	return page, nil
}

// Split splits a page at the comments of a table, which before and after contain.
func Split(page, name string) (before, table, after string, err error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, found := strings.Cut(page, begin)
	table, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", "", "", fmt.Errorf("no table between %q and %q", strings.TrimSpace(begin), end)
	}
	return before + begin, table, end + after, nil
}

// Table is a table in Markdown. The first words columns have names, the others figures.
func Table(words int, head []string, rows [][]string) string {
	rules := slices.Concat(slices.Repeat([]string{"---"}, words), slices.Repeat([]string{"--:"}, len(head)-words))
	var text strings.Builder
	for _, row := range slices.Concat([][]string{head, rules}, rows) {
		for _, cell := range row {
			text.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
		text.WriteString("|\n")
	}
	return text.String()
}

// The arms that tables compare.
const (
	Stock   = "stock"
	Stowage = "stowage"
	ceiling = "write-ceiling"
	// Those of claims without pods.
	pvController = "pv-controller"
	inPlace      = "stowage-inPlace"
	bindNow      = "stowage-bindNow"
)

// table is a table of the page.
type table struct {
	name  string
	write func(figures.Set) string
}

// tables are those of the page.
var tables = []table{
	{"minimums", minimumTable},
	{"clusters", Clusters},
	{"claims", Claims},
	{"binds", rows{"Cluster", "binds", []column{{"calls to bind", "binds"}, {"conflicts", "bind-conflicts"}, {"errors", "bind-errors"}}}.write},
	{"filter", rows{"Filter", "p50-sec", []column{
		{"p50", "p50-sec"}, {"p99", "p99-sec"}, {"longest", "max-sec"}, {"p50 with JSON", "with-json-p50-sec"}, {"p99 with JSON", "with-json-p99-sec"}, {"peak memory", "peak-B"},
	}}.write},
	{"inspect", inspect},
	{"appear", rows{"Appear", "p50-sec", []column{{"p50", "p50-sec"}, {"p99", "p99-sec"}, {"longest", "max-sec"}}}.write},
	{"release", rows{"Release", "p50-sec", []column{{"p50", "p50-sec"}, {"p99", "p99-sec"}, {"longest", "max-sec"}}}.write},
	{"rest", rows{"Rest", "volumes", []column{
		{"volumes", "volumes"}, {"until all are Available", "start-sec"}, {"RSS", "rss-B"}, {"peak RSS", "peak-B"}, {"scans", "scans"}, {"time of a scan", "scan-sec"},
		{"CPU per minute", "cpu-sec/min"}, {"CPU per scan", "cpu-sec/scan"}, {"requests of devices", "requests"},
	}}.write},
	{"wipe", rows{"Wipe", "sec", []column{
		{"time", "sec"}, {"per second", "rate-B"}, {"peak RSS", "peak-B"}, {"peak of the cgroup", "cgroup-B"}, {"the command alone", "command-sec"},
	}}.write},
	{"watch", watchTable},
	{"plugin", rows{"Plugin", "volumes", []column{
		{"PreFilter", "PreFilter-sec"}, {"p99", "PreFilter-p99-sec"}, {"Filter", "Filter-sec"}, {"p99", "Filter-p99-sec"}, {"Score", "Score-sec"}, {"p99", "Score-p99-sec"},
		{"Reserve", "Reserve-sec"}, {"p99", "Reserve-p99-sec"}, {"node read", "node-read-sec"}, {"event", "event-sec"}, {"Filter calls per pod", "Filter/pod"},
		{"per pod", "pod-sec"}, {"first sync", "start-sec"}, {"bytes per volume", "B/volume"}, {"per node", "B/node"}, {"in informers", "informer-B/volume"},
	}}.write},
	{"scheduler-perf", schedulerPerf},
	{"sources", sources},
}

// column is a figure: the title of its column, and its unit.
type column struct{ title, unit string }

// rows is a table with a row for each name below prefix that has the unit, of medians.
type rows struct {
	prefix, unit string
	columns      []column
}

func (t rows) write(s figures.Set) string {
	head := []string{""}
	for _, c := range t.columns {
		head = append(head, c.title)
	}
	var all [][]string
	for _, name := range s.Below(t.prefix).Names() {
		if len(s.Values(name, t.unit)) == 0 {
			continue
		}
		row := []string{label(name)}
		for _, c := range t.columns {
			row = append(row, figures.Show(s.Median(name, c.unit), c.unit))
		}
		all = append(all, row)
	}
	return Table(1, head, all)
}

// label is a name for readers, without the benchmark and the keys: "sides, extender-Full".
func label(name string) string {
	_, rest, _ := strings.Cut(name, "/")
	var values []string
	for part := range strings.SplitSeq(rest, "/") {
		_, value, _ := strings.Cut(part, "=")
		values = append(values, strings.ReplaceAll(value, "_", " "))
	}
	return strings.Join(values, ", ")
}

// Clusters is the table of whole clusters: a row for each arm of each workload.
func Clusters(s figures.Set) string {
	head := []string{"workload", "arm", "pods/s", "stowage is", "p50", "p99", "CPU/pod", "peak memory", "writes/pod", "409s/pod", "Filter", "done"}
	var all [][]string
	last := ""
	for _, name := range s.Below("Cluster").Names() {
		prefix, arm := path.Dir(name), name[strings.LastIndexByte(name, '=')+1:]
		workload := ""
		if prefix != last {
			workload = label(prefix)
		}
		last = prefix
		ratio := ""
		if arm != Stowage {
			r, _ := s.Ratio(figures.Arm(prefix, Stowage), name, "pods/s")
			ratio = figures.Show(r, "x")
		}
		cpu := s.Median(name, "cpu-sec/pod")
		if more := s.Values(name, "extender-cpu-sec/pod"); len(more) > 0 {
			cpu += figures.Median(more)
		}
		all = append(all, []string{
			workload, arm, spread(s, name, "pods/s"), ratio, show(s, name, "p50-sec"), show(s, name, "p99-sec"), figures.Show(cpu, "sec"), show(s, name, "peak-B"),
			show(s, name, "writes/pod"), show(s, name, "409s/pod"), show(s, name, "filter-sec"), done(s, name),
		})
	}
	return Table(2, head, all)
}

// Claims is the table of claims without pods: a row for each arm and number of volumes.
func Claims(s figures.Set) string {
	var all [][]string
	last := ""
	for _, name := range s.Below("Claims").Names() {
		prefix, arm := path.Dir(name), name[strings.LastIndexByte(name, '=')+1:]
		volumes := ""
		if prefix != last {
			volumes = label(prefix)
		}
		last = prefix
		ratio, _ := s.Ratio(name, figures.Arm(prefix, ceiling), "claims/s")
		cpu := s.Median(name, "pv-controller-cpu-sec/claim")
		if own := s.Values(name, "controller-cpu-sec/claim"); len(own) > 0 {
			cpu = figures.Median(own)
		}
		all = append(all, []string{
			volumes, arm, spread(s, name, "claims/s"), figures.Show(ratio, "x"), show(s, name, "first-sec"), show(s, name, "p50-sec"), show(s, name, "p99-sec"),
			figures.Show(cpu, "sec"), show(s, name, "peak-B"), show(s, name, "writes/claim"), show(s, name, "409s/claim"), done(s, name),
		})
	}
	return Table(2, []string{"volumes", "arm", "claims/s", "of the ceiling", "first", "p50", "p99", "CPU/claim", "peak memory", "writes/claim", "409s/claim", "done"}, all)
}

func show(s figures.Set, name, unit string) string { return figures.Show(s.Median(name, unit), unit) }

// spread is the median throughput with the lowest and highest of all rounds.
func spread(s figures.Set, name, unit string) string {
	values := s.Values(name, unit)
	text := show(s, name, unit)
	if len(values) > 1 {
		text += fmt.Sprintf(" (%s–%s)", figures.Show(slices.Min(values), ""), figures.Show(slices.Max(values), ""))
	}
	return text
}

// done is how many pods were done in the first round, of how many if it was stopped before.
func done(s figures.Set, name string) string {
	first := s.Of(name)[0]
	text := figures.Show(float64(first.Iters), "")
	if s.Cut(name) {
		asked, _ := first.Value("asked")
		text += " of " + figures.Show(asked, "") + " †"
	}
	return text
}

// watchTable has a row for each kind of watchers, and one that scales those of all volumes
// up to as many as the filtered ones: each costs what these cost beyond "none".
func watchTable(s figures.Set) string {
	const none, filtered, all = "Watch/watchers=none", "Watch/watchers=filtered", "Watch/watchers=all"
	if by := s.Median(filtered, "watchers") / s.Median(all, "watchers"); by > 0 {
		var scaled []figures.Value
		for _, unit := range []string{"connect-cpu-sec", "connect-sent-B", "connect-volumes", "rss-B", "update-cpu-sec", "update-sent-B", "update-events"} {
			idle := s.Median(none, unit)
			scaled = append(scaled, figures.Value{Value: idle + by*(s.Median(all, unit)-idle), Unit: unit})
		}
		scaled = append(scaled, figures.Value{Value: s.Median(filtered, "watchers"), Unit: "watchers"})
		s = append(slices.Clone(s), figures.Line("Watch/watchers=all,_scaled_up", 1, scaled...))
	}
	return rows{"Watch", "watchers", []column{
		{"watchers", "watchers"}, {"connecting", "connect-sec"}, {"CPU", "connect-cpu-sec"}, {"sent", "connect-sent-B"}, {"volumes", "connect-volumes"}, {"RSS", "rss-B"},
		{"updates", "update-sec"}, {"CPU", "update-cpu-sec"}, {"sent", "update-sent-B"}, {"events", "update-events"},
	}}.write(s)
}

// inspect has a row for each command of kubectl-stowage, and one for kubectl, with which the time is compared.
func inspect(s figures.Set) string {
	const kubectl = "Inspect/command=kubectl_get_pods,pv_-A"
	var all [][]string
	for _, name := range s.Below("Inspect").Names() {
		ratio := ""
		if name != kubectl {
			r, _ := s.Ratio(name, kubectl, "sec")
			ratio = figures.Show(r, "x")
		}
		seconds := s.Values(name, "sec")
		all = append(all, []string{
			label(name), show(s, name, "sec"), figures.Show(slices.Max(seconds), "sec"), ratio, show(s, name, "cpu-sec"), show(s, name, "peak-B"),
		})
	}
	return Table(1, []string{"", "time", "longest", "of kubectl's", "CPU", "peak memory"}, all)
}

// schedulerPerf has a row for each workload with both arms.
func schedulerPerf(s figures.Set) string {
	var all [][]string
	for _, prefix := range schedulerPerfWorkloads(s) {
		a, b := figures.Arm(prefix, Stock), figures.Arm(prefix, Stowage)
		ratio, _ := s.Ratio(b, a, "pods/s")
		row := []string{strings.TrimPrefix(prefix, "SchedulerPerf/"), show(s, b, "nodes"), figures.Show(float64(s.Of(b)[0].Iters), ""), spread(s, a, "pods/s"), spread(s, b, "pods/s"), figures.Show(ratio, "x")}
		for _, unit := range []string{"reported-pods/s", "p50-sec"} {
			row = append(row, show(s, a, unit), show(s, b, unit))
		}
		all = append(all, row)
	}
	return Table(1, []string{"workload", "nodes", "pods", "pods/s, stock", "stowage", "ratio", "reported, stock", "stowage", "p50, stock", "stowage"}, all)
}

func schedulerPerfWorkloads(s figures.Set) []string {
	var prefixes []string
	for _, name := range s.Below("SchedulerPerf").Names() {
		if strings.HasSuffix(name, "/arm="+Stowage) {
			prefixes = append(prefixes, path.Dir(name))
		}
	}
	return prefixes
}

// sources has a row for each commit and machine that measured something.
func sources(s figures.Set) string {
	var all [][]string // the figures of a row, which are its first cell, are joined by commas
	for _, r := range s {
		day, _, _ := strings.Cut(r.GetConfig("measured"), "T")
		from := []string{day, r.GetConfig("commit"), r.GetConfig("cpu"), r.GetConfig("kernel")}
		name, _, _ := strings.Cut(string(r.Name), "/")
		if name == "Cluster" {
			name = label(path.Dir(string(r.Name)))
		}
		i := slices.IndexFunc(all, func(row []string) bool { return slices.Equal(row[1:], from) })
		if i < 0 {
			all = append(all, append([]string{name}, from...))
		} else if !slices.Contains(strings.Split(all[i][0], ", "), name) {
			all[i][0] += ", " + name
		}
	}
	return Table(5, []string{"figures", "day", "Stowage", "processor", "kernel"}, all)
}
