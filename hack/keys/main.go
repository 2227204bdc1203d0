// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command keys writes docs/keys.md: every label, annotation, finalizer, taint and resource of
// the group stowage.dev, from the constants of the source and their comments.
//
//	go run ./hack/keys >docs/keys.md
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const prefix = "stowage.dev/"

// key is what the page says of a label, annotation, finalizer, taint or resource.
type key struct{ kind, on, by, meaning string }

// keys are those that objects have, by what follows the prefix.
var keys = map[string]key{
	"adopted-from":          {"annotation", "volume", "`stowage-provisioner adopt`", "What `pv.kubernetes.io/provisioned-by` said before the volume was [adopted](migrating-from-local-static-provisioner.md)."},
	"agent-not-ready":       {"taint", "node", "whoever makes the node", "Default of `provisioner.startupTaint.key`: keeps pods off a new node until its disks are published; the node agent removes it."},
	"attempt":               {"annotation", "cleaning Job", "controller", "Which attempt of the node agent's request it is."},
	"clean-orphans":         {"annotation", "LocalDiskReport", "controller, administrator", "Allows the node agent to clean [disks without a volume](provisioner.md)."},
	"cleaning":              {"label", "cleaning Job, its pod", "controller", "UID of the volume that is cleaned."},
	"disk":                  {"annotation", "volume", "node agent", "The volume's disk is missing or replaced: scheduler and extender place no pod on it."},
	"disk-bytes":            {"annotation", "volume", "node agent", "Size of the disk in bytes, which the capacity rounds down."},
	"disk-identity":         {"annotation", "volume", "node agent", "[Identity](provisioner.md#identity) of the disk that was published."},
	"disk-path":             {"annotation", "volume", "node agent", "Path of the disk on the node, where `spec.local.path` is a link to it."},
	"generation":            {"annotation", "volume", "node agent", "Part of what the volume's name is made of: goes up when its predecessor vanished."},
	"given-back":            {"annotation", "volume", "scheduler, extender", "UID of the claim whose binding was taken back, until the next binding is complete."},
	"local-volume":          {"finalizer", "volume", "node agent", "Keeps the volume until its disk is clean or [released](provisioner.md#leaving)."},
	"lost":                  {"annotation", "volume", "controller", "Why the volume [cannot be reached](controller.md#when-a-node-is-gone-for-good), and since when."},
	"node":                  {"label", "volume, cleaning Job, its pod", "node agent, controller", "Hash of the node's name: 128 bits of its SHA-256."},
	"node-loss":             {"annotation", "claim, StorageClass", "user", "`Keep` or `Release`: what becomes of the claim [when its node is gone for good](controller.md#when-a-node-is-gone-for-good). A claim's wins over its class's."},
	"node-loss-delay":       {"annotation", "claim, StorageClass", "user", "How long the node must be gone before, such as `10m`."},
	"node-loss-recreatable": {"annotation", "claim", "user", "`true`: the claim's owner makes it again when it is deleted, although it is of no StatefulSet; `false` [keeps any claim](controller.md#when-a-node-is-gone-for-good)."},
	"node-name":             {"annotation, label", "volume, cleaning Job", "node agent, controller", "Name of the node; as a label of volumes, up to 63 characters."},
	"path":                  {"annotation", "cleaning Job", "controller", "What is cleaned on the node."},
	"publish-retained":      {"annotation", "LocalDiskReport", "administrator", "Data that was [kept](provisioner.md#retain) and may be published, separated by commas."},
	"release":               {"annotation", "volume", "controller", "When the release of its claim began, and of which claim."},
	"same-disk":             {"annotation", "volume", "administrator", "[Identity](provisioner.md#identity) of what is at the volume's path now, if that is the same disk."},
	"same-filesystem":       {"annotation", "volume", "administrator", "File system on the [volume's device](provisioner.md#volumes-on-devices) now, such as `ext4:UUID`, if it is the volume's."},
	"same-machine":          {"annotation", "LocalDiskReport", "administrator", "`OLD:NEW`: the machine that was OLD is NEW since its mainboard was exchanged."},
	"scheduler":             {"label", "namespace", "user", "`enabled`: with `manifests/policies`, pods with claims choose stowage-scheduler without naming it."},
	"tombstones":            {"label", "LocalDiskReport", "controller", "`true`: the report has [tombstones](controller.md#tombstones)."},
	"volumes":               {"resource", "pod", "`manifests/extender/base/policy.yaml`", "Marks a pod with claims for the extender. No node has it: see [extender.md](extender.md#other-software)."},
}

// inManifests are keys that are no constant of the source.
var inManifests = []string{"agent-not-ready", "scheduler", "volumes"}

// internal are constants with the prefix that never reach an object.
var internal = map[string]bool{"ephemeralOn": true, "reserved": true, "concernedIndex": true, "extenderMark": true, "provisioner": true}

func main() {
	page, err := write(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "keys:", err)
		os.Exit(1)
	}
	fmt.Fprint(os.Stdout, page)
}

// write makes the page, if it has all keys of the source below root and no others.
func write(root string) (string, error) {
	found := slices.Clone(inManifests)
	for _, folder := range []string{"pkg", "cmd"} {
		more, err := constants(filepath.Join(root, folder))
		if err != nil {
			return "", err
		}
		found = append(found, more...)
	}
	for name := range keys {
		if !slices.Contains(found, name) {
			return "", fmt.Errorf("%s%s: the source has no such constant; remove it from hack/keys", prefix, name)
		}
	}
	slices.Sort(found)
	var page strings.Builder
	page.WriteString(`<!-- Generated by hack/update-keys.sh. Do not edit. -->

# Labels, annotations and other keys

All keys below ` + "`stowage.dev/`" + ` that objects of the API have. Those that components write are theirs: change only
what is for users and administrators.

| key | kind | on | written by | meaning |
| --- | --- | --- | --- | --- |
`)
	for _, name := range slices.Compact(found) {
		k, ok := keys[name]
		if !ok {
			return "", fmt.Errorf("%s%s: add it to hack/keys, which says on which objects it is, who writes it and what it means", prefix, name)
		}
		fmt.Fprintf(&page, "| `%s%s` | %s | %s | %s | %s |\n", prefix, name, k.kind, k.on, k.by, k.meaning)
	}
	return page.String(), nil
}

// constants returns what constants below a folder hold after the prefix.
func constants(folder string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", path, err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if constant, ok := n.(*ast.ValueSpec); ok {
				if name := keyOf(constant); name != "" {
					found = append(found, name)
				}
			}
			return true
		})
		return nil
	})
	return found, err
}

// keyOf is what a constant holds after the prefix; empty if it is no key of an object.
func keyOf(constant *ast.ValueSpec) string {
	if len(constant.Values) != 1 || internal[constant.Names[0].Name] {
		return ""
	}
	literal, ok := constant.Values[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	name, _ := strings.CutPrefix(value, prefix)
	if name == value || strings.Contains(name, "/") {
		return ""
	}
	return name
}
