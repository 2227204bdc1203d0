// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-stowage is a plugin of kubectl: it says why pods and volumes wait, where storage is, and
// what would fit.
package main

import (
	"os"

	"stowage.dev/stowage/cmd/kubectl-stowage/app"
)

func main() { os.Exit(app.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
