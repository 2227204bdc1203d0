// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo schedules stateful pods by their volumes on a real control plane
// on this machine, prints what happens, and checks the outcome.
//
//	go run ./hack/demo          from the top of the repository, as "make demo" does
//	go run ./hack/demo -keep    leaves the cluster running until Ctrl-C
//
// It builds and starts etcd, kube-apiserver, kube-controller-manager, simulated
// nodes, the stock kube-scheduler and, as a second scheduler with the sample
// configuration and rights of manifests/scheduler/second, stowage-scheduler. Three
// nodes get stowage-provisioner, which publishes plain folders. All of it ends with
// the command.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	keep := flag.Bool("keep", os.Getenv("KEEP") != "", "leave the cluster running until Ctrl-C (also: KEEP=1)")
	flag.Parse()
	// A closed standard output must not end the demo before it has removed its folders.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

// run starts the cluster, runs all steps, checks the outcome and stops everything.
func run(ctx context.Context, keep bool) (err error) {
	d, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop(err != nil && ctx.Err() == nil)) }()
	for i, s := range steps {
		fmt.Printf("\n%d. %s\n", i+1, s.title)
		d.print("%s", s.text)
		if err := s.run(ctx, d); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	if err := d.checkOutcome(ctx); err != nil {
		return err
	}
	d.print("All as expected, in %s from starting etcd.", time.Since(d.begin).Round(100*time.Millisecond))
	if keep {
		return d.keep(ctx)
	}
	return nil
}

const (
	indent = "   "
	// columns fits a terminal of 100 with some space left.
	columns = 94
)

// print prints a paragraph.
func (d *demo) print(format string, args ...any) {
	fmt.Println(wrap(fmt.Sprintf(format, args...), indent))
}

// quote prints the message of a component.
func (d *demo) quote(text string) { fmt.Println(wrap(text, indent+"| ")) }

// wrap breaks text between words, so that no line is longer than columns unless
// a word is. Each line begins with prefix.
func wrap(text, prefix string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = prefix + word
		case len(line)+1+len(word) > columns:
			lines = append(lines, line)
			line = prefix + word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}
