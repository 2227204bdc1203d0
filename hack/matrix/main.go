// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command matrix runs suites of tests on minors of Kubernetes, by `make SUITE KUBE=MINOR`, and
// records each result in a table of docs/compatibility.md:
//
//	go run ./hack/matrix                                       all suites on all minors
//	go run ./hack/matrix -kube=1.36 -suite=test-integration    one; the other rows stay
//
// A suite that fails is recorded, and the others still run; then the exit code is 1.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"stowage.dev/stowage/test/perf/page"
)

const (
	path  = "docs/compatibility.md"
	table = "matrix" // the name of the table
)

// suites are targets of the Makefile.
var suites = []string{"test-unit", "test-integration", "e2e"}

func main() {
	kube := flag.String("kube", "", "the only `minor` of Kubernetes to run on, such as 1.36")
	suite := flag.String("suite", "", "the only suite to run, a `target` of the Makefile: "+strings.Join(suites, ", "))
	flag.Parse()
	if err := run(*kube, *suite); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(kube, suite string) error {
	if suite != "" && !slices.Contains(suites, suite) {
		return fmt.Errorf("SUITE=%s: must be one of %s", suite, strings.Join(suites, ", "))
	}
	versions, err := supported()
	if err != nil {
		return err
	}
	var failed []string
	for _, version := range versions {
		for _, s := range suites {
			if kube != "" && kube != minor(version) || suite != "" && suite != s {
				continue
			}
			r, err := test(version, s)
			if err != nil {
				return err
			}
			if !r.passed {
				failed = append(failed, s+" on "+version)
			}
			if err := record(r, versions); err != nil {
				return err
			}
		}
	}
	if failed != nil {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// supported returns the patch of each minor that the scheduler is built for, the newest first.
func supported() ([]string, error) {
	modules, err := filepath.Glob("pkg/kubecompat/*/go.mod")
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, module := range modules {
		text, err := os.ReadFile(module)
		if err != nil {
			return nil, err
		}
		required := regexp.MustCompile(`(?m)^require k8s\.io/kubernetes v(\S+)$`).FindSubmatch(text)
		if required == nil {
			return nil, fmt.Errorf("%s does not require k8s.io/kubernetes", module)
		}
		versions = append(versions, string(required[1]))
	}
	slices.Sort(versions)
	slices.Reverse(versions)
	return versions, nil
}

// minor is 1.36 of 1.36.3.
func minor(version string) string { return version[:max(0, strings.LastIndex(version, "."))] }

// result is that of one suite on one version of Kubernetes.
type result struct {
	version, suite string
	date           time.Time
	took           time.Duration
	passed         bool
	tests          map[string]int // how many passed, were skipped and failed, by action: "pass", "skip", "fail"
}

// test runs a suite. Only what prevents a result is an error.
func test(version, suite string) (result, error) {
	events := filepath.Join("bin", "events", suite+".json")
	if err := os.Remove(events); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return result{}, err
	}
	// All tests, whatever this command was called with.
	command := exec.CommandContext(context.Background(), "make", suite, "KUBE="+minor(version), "COUNT=1", "RUN=", "PACKAGES=./test/...")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	fmt.Printf("\n==> %s\n", strings.Join(command.Args, " "))
	begin := time.Now()
	failed := command.Run()
	if failed != nil {
		fmt.Fprintf(os.Stderr, "==> %s on %s: %v\n", suite, version, failed)
	}
	text, err := os.ReadFile(events)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it failed before the first test
		return result{}, err
	}
	return result{version, suite, begin, time.Since(begin), failed == nil, count(text)}, nil
}

// count counts tests and subtests by how they ended, as gotestsum does, in the output of `go test -json`.
func count(events []byte) map[string]int {
	tests := map[string]int{}
	for line := range bytes.Lines(events) {
		var event struct{ Action, Test string }
		if json.Unmarshal(line, &event) == nil && event.Test != "" {
			tests[event.Action]++
		}
	}
	return tests
}

// record writes a result into the table of the page.
func record(r result, versions []string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := put(string(text), r, versions)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}

// put adds a result to the table of a page. It replaces the row of the same minor and suite, and
// removes those of minors that are not supported.
func put(text string, r result, versions []string) (string, error) {
	before, old, after, err := page.Split(text, table)
	if err != nil {
		return "", err
	}
	outcome := "passed"
	if !r.passed {
		outcome = "**failed**"
	}
	rows := [][]string{{
		r.version, r.suite, r.date.Format(time.DateOnly), outcome,
		strconv.Itoa(r.tests["pass"]), strconv.Itoa(r.tests["skip"]), strconv.Itoa(r.tests["fail"]), r.took.Round(time.Second).String(),
	}}
	place := func(row []string) (kube, suite int) {
		same := func(version string) bool { return minor(version) == minor(row[0]) }
		return slices.IndexFunc(versions, same), slices.Index(suites, row[1])
	}
	kube, suite := place(rows[0])
	for line := range strings.Lines(old) {
		row := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(row) != len(rows[0]) {
			continue
		}
		if k, s := place(row); k >= 0 && s >= 0 && (k != kube || s != suite) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b []string) int {
		ka, sa := place(a)
		kb, sb := place(b)
		return cmp.Or(cmp.Compare(ka, kb), cmp.Compare(sa, sb))
	})
	head := []string{"Kubernetes", "suite", "date", "result", "passed", "skipped", "failed", "time"}
	return before + page.Table(4, head, rows) + after, nil
}
