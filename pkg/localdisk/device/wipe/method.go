// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// The names of the methods that are built in.
const (
	FSReset    = "fs-reset"
	Zero       = "zero"
	BlkDiscard = "blkdiscard"
	DDZero     = "dd-zero"
	Shred      = "shred"
	HDParm     = "hdparm"
)

// defaultPasses has the built-in methods, and how often each writes a device over unless it is
// configured; 0 for those that take no number.
var defaultPasses = map[string]int{FSReset: 0, Zero: 0, BlkDiscard: 0, HDParm: 0, DDZero: 1, Shred: 3}

// MaxPasses limits how often a method writes a device over.
const MaxPasses = 100

// Method is how a device is cleaned, as Parse makes it.
type Method struct {
	// Name is one of the names above, or the absolute path of a command.
	Name string
	// Passes is how often dd-zero writes zeros, and how often shred writes random
	// bytes before its zeros; 0 for all others.
	Passes int
	// Args are the arguments of a command.
	Args []string
}

func (m Method) String() string {
	if m.Passes > 0 {
		return m.Name + " " + strconv.Itoa(m.Passes)
	}
	return strings.Join(append([]string{m.Name}, m.Args...), " ")
}

// Parse reads the canonical form of a cleaner's command (disk.CleanRequest). None
// is the mode's default: fs-reset for Filesystem, zero for Block. Without a number,
// dd-zero makes one pass and shred three.
func Parse(command []string, mode disk.Mode) (Method, error) {
	if mode != disk.Filesystem && mode != disk.Block {
		return Method{}, fmt.Errorf("read cleaner command: unknown volume mode %q", mode)
	}
	if len(command) == 0 {
		if mode == disk.Block {
			return Method{Name: Zero}, nil
		}
		return Method{Name: FSReset}, nil
	}
	m, err := parse(command[0], command[1:])
	if err != nil {
		return Method{}, fmt.Errorf("read cleaner command %q: %w", command, err)
	}
	return m, nil
}

func parse(name string, args []string) (Method, error) {
	for _, s := range append([]string{name}, args...) {
		if strings.ContainsRune(s, 0) {
			return Method{}, errors.New("has a NUL byte")
		}
	}
	passes, builtIn := defaultPasses[name]
	switch {
	case filepath.IsAbs(name):
		return Method{Name: name, Args: slices.Clone(args)}, nil
	case !builtIn:
		return Method{}, errors.New("neither a method nor an absolute path")
	case len(args) == 0:
		return Method{Name: name, Passes: passes}, nil
	case passes == 0:
		return Method{}, fmt.Errorf("%s takes no arguments", name)
	case len(args) > 1:
		return Method{}, fmt.Errorf("%s takes one argument, the number of passes", name)
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 || n > MaxPasses {
		return Method{}, fmt.Errorf("number of passes %q is not in 1..%d", args[0], MaxPasses)
	}
	return Method{Name: name, Passes: n}, nil
}
