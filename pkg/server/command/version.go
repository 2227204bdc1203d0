// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import "runtime/debug"

// version is set by the build:
//
//	go build -ldflags "-X stowage.dev/stowage/pkg/server/command.version=v0.1.0"
var version string

// Version is what the build set, else what the Go toolchain recorded
// ("go install stowage.dev/stowage/cmd/scheduler@v0.1.0", or the commit).
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
