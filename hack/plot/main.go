// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command plot draws the growth curves beside docs/benchmarks.md and puts them
// on that page. It has a module of its own, so that what draws never reaches the
// dependencies of the product. Run it at the top of the repository:
//
//	go -C hack/plot build -o "$PWD/bin/tools/plot" . && bin/tools/plot
//
// The same figures always make the same files, byte by byte.
//
//	main.go       files in, files out
//	curves.go     results of whole clusters as curves
//	loadmodel.go  figures of the load model as curves
//	chart.go      curves as a drawing
//	axes.go       where an axis begins and ends, and its ticks
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"stowage.dev/stowage/test/perf/report"
	"stowage.dev/stowage/test/perf/result"
)

// options are where things are.
type options struct {
	results   string // what make bench stored
	loadModel string // what the load model stored; may be missing
	page      string // the page to put them on; they are in its folder
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	var o options
	flags := flag.NewFlagSet("plot", flag.ContinueOnError)
	flags.StringVar(&o.results, "results", "docs/benchmarks.json", "results of whole clusters")
	flags.StringVar(&o.loadModel, "loadmodel", "docs/loadmodel.json", "figures of the load model")
	flags.StringVar(&o.page, "page", "docs/benchmarks.md", "page to rewrite, with the drawings in the folder of its name")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: files are named by flags, see -help", flags.Arg(0))
	}
	return o.draw(stdout)
}

// draw makes all drawings for which there are figures, and the page.
func (o options) draw(stdout io.Writer) error {
	results, err := result.Load(o.results)
	if err != nil {
		return err
	}
	if len(results.Workloads) == 0 {
		return fmt.Errorf("%s has no results: run make bench first", o.results)
	}
	drawings := clusterCharts(results)
	model, err := loadModel(o.loadModel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintf(stdout, "%s is missing, so the engine is not drawn: go run ./test/perf/loadmodel -out %[1]s\n", o.loadModel)
	case err != nil:
		return err
	default:
		drawings = append(drawings, engineChart(model))
	}

	folder := report.Folder(o.page)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, d := range drawings {
		path := filepath.Join(folder, d.file)
		if len(d.panels) == 0 {
			fmt.Fprintf(stdout, "%s is not drawn: nothing was measured at two numbers of nodes\n", path)
			continue
		}
		var svg bytes.Buffer
		if err := d.svg(&svg); err != nil {
			return fmt.Errorf("draw %s: %w", path, err)
		}
		if err := os.WriteFile(path, svg.Bytes(), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s drawn\n", path)
	}
	return report.Write(o.page, results)
}
