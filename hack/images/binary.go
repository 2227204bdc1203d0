// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// machines are the architectures that Kubernetes runs on, by Go's names.
var machines = map[string]elf.Machine{
	"amd64":   elf.EM_X86_64,
	"arm64":   elf.EM_AARCH64,
	"ppc64le": elf.EM_PPC64,
	"s390x":   elf.EM_S390,
}

// readBinary returns a binary's bytes. It refuses one that would not start in the
// image: one for another machine, or one that asks for a loader, since there are no
// libraries.
func readBinary(path string, p v1.Platform) ([]byte, error) {
	f, err := elf.Open(path)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("binary %s is missing: make images builds it", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read binary %s: %w", path, err)
	}
	defer f.Close()
	if want := machines[p.Architecture]; f.Machine != want {
		return nil, fmt.Errorf("binary %s is for %v, but %s needs %v", path, f.Machine, p, want)
	}
	for _, part := range f.Progs {
		if part.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("binary %s is linked dynamically: build it with CGO_ENABLED=0", path)
		}
	}
	return os.ReadFile(path)
}
