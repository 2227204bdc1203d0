// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testreport reads the events of `go test -json` and tells a person what happens: a
// line for each package, with -tests also one for each top-level test, a sign of life
// whenever nothing finished for a while, and the whole output of whatever fails, the
// beginning of which the sum at the end says again.
//
//	go test -json ./... | go run ./hack/testreport
//
// It exits with 1 when a test or a build failed.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// quiet is how long testreport stays silent while nothing finishes.
const quiet = 20 * time.Second

func main() {
	tests := flag.Bool("tests", false, "print a line for each top-level test")
	flag.Parse()

	r := newReport(os.Stdout, *tests, time.Now())
	if err := consume(os.Stdin, r); err != nil {
		fmt.Fprintf(os.Stderr, "testreport: read test events: %v\n", err)
		os.Exit(1)
	}
	if !r.finish(time.Now()) {
		os.Exit(1)
	}
}

// consume feeds r with the events of in until it ends.
func consume(in io.Reader, r *report) error {
	lines := make(chan []byte)
	ended := make(chan error, 1)
	go func() { ended <- readLines(in, lines) }()

	alive := time.NewTicker(quiet)
	defer alive.Stop()
	for {
		select {
		case line := <-lines:
			var e event
			if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
				r.foreign(line)
				continue
			}
			r.add(e, time.Now())
		case <-alive.C:
			r.alive(time.Now())
		case err := <-ended:
			return err
		}
	}
}

// readLines sends each line of in, however long, and returns once the last is taken.
func readLines(in io.Reader, lines chan<- []byte) error {
	buffered := bufio.NewReader(in)
	for {
		line, err := buffered.ReadBytes('\n')
		if len(line) > 0 {
			lines <- line
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
