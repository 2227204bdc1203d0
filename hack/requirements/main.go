// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command requirements reports what this machine lacks for a use, before anything is built:
//
//	go run ./hack/requirements e2e                    exits with 1 and one message if anything is missing
//	go run ./hack/requirements -packages disks e2e    prints the Debian packages that they need
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"stowage.dev/stowage/test/requirements"
)

func main() {
	packages := flag.Bool("packages", false, "print the Debian packages that the uses need, and check nothing")
	flag.Parse()
	if err := run(os.Stdout, *packages, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, packages bool, args []string) error {
	var uses []requirements.Use
	for _, arg := range args {
		use := requirements.Use(arg)
		if !slices.Contains(requirements.Uses(), use) {
			return fmt.Errorf("%q: must be one of %v", arg, requirements.Uses())
		}
		uses = append(uses, use)
	}
	if len(uses) == 0 {
		return fmt.Errorf("usage: requirements [-packages] USE..., of %v", requirements.Uses())
	}
	if packages {
		_, err := fmt.Fprintln(out, strings.Join(requirements.Packages(uses...), " "))
		return err
	}
	var errs []error
	for _, use := range uses {
		errs = append(errs, requirements.Missing(use))
	}
	return errors.Join(errs...)
}
