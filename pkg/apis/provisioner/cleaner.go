// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Method is a built-in method of cleaning a device.
type Method string

// The methods.
const (
	// MethodFSReset removes the signatures of file systems; old bytes stay.
	MethodFSReset Method = "fs-reset"
	// MethodZero makes the device read as zeros, by deallocation where that proves it.
	MethodZero Method = "zero"
	// MethodBlkDiscard discards all blocks; reads return whatever the device returns for them.
	MethodBlkDiscard Method = "blkdiscard"
	// MethodDDZero overwrites with zeros, in passes.
	MethodDDZero Method = "dd-zero"
	// MethodShred overwrites with random bytes, in passes, and then with zeros.
	MethodShred Method = "shred"
	// MethodHDParm runs an ATA secure erase.
	MethodHDParm Method = "hdparm"
)

// Cleaner is how something is cleaned: by a method, or by an external command.
// The zero value is neither.
type Cleaner struct {
	// Method is empty when External is not.
	Method Method
	// Passes is how often MethodDDZero and MethodShred overwrite; 0 for other methods.
	Passes int
	// External is a command and its arguments; the command is an absolute path.
	External []string
}

// Command returns a copy of the canonical form: the method's name and its passes, if it has
// any, or the external command. Nil for the zero value.
func (c Cleaner) Command() []string {
	switch {
	case c.Method == "":
		return slices.Clone(c.External)
	case c.Passes > 0:
		return []string{string(c.Method), strconv.Itoa(c.Passes)}
	default:
		return []string{string(c.Method)}
	}
}

// maxPasses is more than is useful.
const maxPasses = 100

// word is a method as users write it.
type word struct {
	method Method
	// passes is the default; 0 if the method has none.
	passes int
	// script is the reference's name for it; "" if it has none.
	script string
}

var words = []word{
	{MethodFSReset, 0, "/scripts/quick_reset.sh"},
	{MethodZero, 0, ""},
	{MethodBlkDiscard, 0, "/scripts/blkdiscard.sh"},
	{MethodDDZero, 1, "/scripts/dd_zero.sh"},
	{MethodShred, 3, "/scripts/shred.sh"},
	{MethodHDParm, 0, ""},
}

func wordOf(command string) (word, bool) {
	at := slices.IndexFunc(words, func(w word) bool { return command == string(w.method) || command == w.script && command != "" })
	if at < 0 {
		return word{}, false
	}
	return words[at], true
}

func methodNames() string {
	var names []string
	for _, w := range words {
		names = append(names, string(w.method))
	}
	return strings.Join(names, ", ")
}

func readBlockCleaner(n node) (Cleaner, bool) {
	command, ok := readCommand(n)
	if !ok {
		return Cleaner{}, false
	}
	if w, ok := wordOf(command[0]); ok {
		return w.read(n, command)
	}
	if !isProgram(command[0]) {
		n.failf("%q is neither a built-in method (%s) nor a program: programs are named by an absolute path without . and ..", command[0], methodNames())
		return Cleaner{}, false
	}
	return Cleaner{External: command}, true
}

// read returns the cleaner of a built-in method and its arguments.
func (w word) read(n node, command []string) (Cleaner, bool) {
	cleaner := Cleaner{Method: w.method, Passes: w.passes}
	switch {
	case len(command) == 1:
		return cleaner, true
	case w.passes == 0:
		n.failf("%s takes no arguments, and has %q", command[0], command[1:])
		return Cleaner{}, false
	}
	passes, err := strconv.Atoi(command[1])
	if len(command) > 2 || err != nil || passes < 1 || passes > maxPasses {
		n.failf("%s takes one argument, how often to overwrite (1 to %d), and has %q", command[0], maxPasses, command[1:])
		return Cleaner{}, false
	}
	cleaner.Passes = passes
	return cleaner, true
}

// readFilesystemCleaner reads an external command.
func readFilesystemCleaner(n node) (Cleaner, bool) {
	command, ok := readCommand(n)
	if !ok {
		return Cleaner{}, false
	}
	if _, builtIn := wordOf(command[0]); builtIn || !isProgram(command[0]) {
		n.failf("must begin with the absolute path of a program, and begins with %q: the built-in methods clean devices. "+
			"Without this key the provisioner removes the files itself", command[0])
		return Cleaner{}, false
	}
	return Cleaner{External: command}, true
}

// isProgram reports whether a command is an absolute path of a file.
func isProgram(command string) bool {
	return path.IsAbs(command) && path.Clean(command) == command && command != "/"
}

// readCommand reads a command and its arguments. Whole numbers need no quotes, as
// with the reference.
func readCommand(n node) ([]string, bool) {
	items, ok := n.list("words, the command first and then its arguments")
	if !ok {
		return nil, false
	}
	if len(items) == 0 {
		n.failf("must name a command: write one, or remove this key for the default")
		return nil, false
	}
	var command []string
	for _, item := range items {
		if number, isNumber := item.value.(json.Number); isNumber && isWhole(number) {
			item.value = number.String()
		}
		text, read := item.text()
		if strings.ContainsRune(text, 0) {
			item.failf("must be without the character 0, which ends a word")
			read = false
		}
		ok = ok && read
		command = append(command, text)
	}
	return command, ok
}

func isWhole(number json.Number) bool {
	_, err := number.Int64()
	return err == nil
}
