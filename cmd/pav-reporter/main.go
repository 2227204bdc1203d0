// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command stowage-pav-reporter is the sidecar of PaV helper pods: it reports what the containers
// leave in /pav. It runs once a second in staging pods, so it imports nothing of Kubernetes.
package main

import (
	"os"

	"stowage.dev/stowage/cmd/pav-reporter/app"
)

func main() { os.Exit(app.Main(os.Args[1:], os.Stdout, os.Stderr)) }
