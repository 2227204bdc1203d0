// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import "runtime/debug"

// version is set by the build:
//
//	go build -ldflags "-X stowage.dev/stowage/cmd/controller/app.version=v0.1.0"
var version string

// stowageVersion is what the build set, else what the Go toolchain recorded.
func stowageVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
