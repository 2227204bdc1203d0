// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"stowage.dev/stowage/test/perf/loadmodel/model"
	"stowage.dev/stowage/test/perf/page"
	"stowage.dev/stowage/test/perf/result"
	"stowage.dev/stowage/test/perf/source"
)

// report is the stored JSON: the figures, and their circumstances.
type report struct {
	Source result.Source `json:"source"`
	// Pods are placed at each size.
	Pods       int            `json:"pods"`
	Occupied   float64        `json:"occupied"`
	FourClaims float64        `json:"fourClaims"`
	Returning  float64        `json:"returning"`
	Stream     model.Stream   `json:"stream"`
	Points     []*model.Point `json:"points"`
}

func newReport(ctx context.Context, o *options) (*report, error) {
	sizes := make([]string, len(o.nodes))
	for i, n := range o.nodes {
		sizes[i] = strconv.Itoa(n)
	}
	from, err := source.Describe(ctx, fmt.Sprintf("go run ./test/perf/loadmodel -nodes %s -pods %d", strings.Join(sizes, ","), o.pods))
	if err != nil {
		return nil, err
	}
	workload := model.Default(o.nodes[0], o.pods)
	return &report{
		Source: from,
		Pods:   o.pods, Occupied: workload.Occupied, FourClaims: workload.FourClaims, Returning: workload.Returning,
		Stream: workload.Stream,
	}, nil
}

// print writes a row per size, and how the last compares with the first.
func (r *report) print(to io.Writer) {
	fmt.Fprintf(to, "%s, %d CPUs, %s, %s\n%d pods at each size; CPU time in ns, in brackets wall time of the 99th percentile\n",
		r.Source.CPU, r.Source.CPUs, r.Source.Go, r.Source.Version, r.Pods)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "nodes\tvolumes\tPreFilter\tFilter\tScore\tReserve\tlook\tevent\tµs/pod\tFilter/pod\trefused\tallocs P/F/S/R\tstart s\tB/volume\tB/node\tinformers B/volume\tB/node\t")
	for _, p := range r.Points {
		fmt.Fprintf(w, "%d\t%d\t%.0f (%.0f)\t%.0f (%.0f)\t%.0f (%.0f)\t%.0f (%.0f)\t%.1f\t%.0f\t%.0f\t%.0f\t%.1f%%\t%.0f/%.2f/%.2f/%.0f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t\n",
			p.Nodes, p.Volumes, p.PreFilterNanos, p.PreFilterP99Nanos, p.FilterNanos, p.FilterP99Nanos,
			p.ScoreNanos, p.ScoreP99Nanos, p.ReserveNanos, p.ReserveP99Nanos, p.LookNanos, p.EventNanos, p.PodNanos/1000,
			p.FiltersPerPod, 100*p.RefusedShare, p.PreFilterAllocs, p.FilterAllocs, p.ScoreAllocs, p.ReserveAllocs,
			p.StartSeconds, p.BytesPerVolume, p.BytesPerNode, p.InformerBytesPerVolume, p.InformerBytesPerNode)
	}
	if len(r.Points) > 1 {
		first, last := r.Points[0], r.Points[len(r.Points)-1]
		ratio := func(of func(*model.Point) float64) float64 { return of(last) / of(first) }
		fmt.Fprintf(w, "%d / %d\t\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\t\t\t\t%.2f\t%.2f\t\t\t\n", last.Nodes, first.Nodes,
			ratio(func(p *model.Point) float64 { return p.PreFilterNanos }),
			ratio(func(p *model.Point) float64 { return p.FilterNanos }),
			ratio(func(p *model.Point) float64 { return p.ScoreNanos }),
			ratio(func(p *model.Point) float64 { return p.ReserveNanos }),
			ratio(func(p *model.Point) float64 { return p.LookNanos }),
			ratio(func(p *model.Point) float64 { return p.EventNanos }),
			ratio(func(p *model.Point) float64 { return p.PodNanos }),
			ratio(func(p *model.Point) float64 { return p.BytesPerVolume }),
			ratio(func(p *model.Point) float64 { return p.BytesPerNode }))
	}
	_ = w.Flush()
}

// write keeps the figures, and the page that explains them beside.
func (r *report) write(name string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return page.Store(name, content, r.page())
}
