// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command stretch prints a duration multiplied by STOWAGE_TEST_SLOW, for what limits tests
// from outside, such as the -timeout of go test:
//
//	go test -timeout="$(go run ./hack/stretch 45m)" ./test/...
//
// A factor that is not valid is an error here, before anything is built.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"stowage.dev/stowage/test/deadline"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: stretch DURATION")
	}
	d, err := time.ParseDuration(args[0])
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: must be a positive duration such as 45m", args[0])
	}
	_, err = fmt.Fprintln(os.Stdout, deadline.Stretch(d))
	return err
}
