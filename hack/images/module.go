// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
)

// standard is the name of Go's standard library in package URLs.
const standard = "stdlib"

// modulesOf are the modules that a binary was built from besides its own, as they were
// after replacement, and the standard library.
func modulesOf(info *debug.BuildInfo) []debug.Module {
	modules := []debug.Module{{Path: standard, Version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, *m)
	}
	return modules
}

// authoritiesModule is where the certificates in images come from: one of this
// command's own modules.
func authoritiesModule() (debug.Module, error) {
	const path = "golang.org/x/crypto/x509roots/fallback"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return debug.Module{}, errors.New("this command has no build info to tell the version of its certificates")
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return *m, nil
		}
	}
	return debug.Module{}, fmt.Errorf("this command was built without module %s, where its certificates come from", path)
}
