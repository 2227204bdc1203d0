// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command supervisor is the parent of a test cluster's processes: it takes its
// orders from standard input and ends everything when that ends.
package main

import (
	"fmt"
	"os"

	"stowage.dev/stowage/test/cluster/internal/supervise"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: supervisor FOLDER (not meant to be started by hand)")
		os.Exit(2)
	}
	if err := supervise.Serve(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
