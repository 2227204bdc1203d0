// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"path"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// classReader is a class while it is read: its keys, before the values that depend on them.
type classReader struct {
	class *Class
	// directories is allowDirectories; nil if it is absent.
	directories *bool
	// blockCleaner reports whether the class has one.
	blockCleaner *Cleaner
}

// classKeys are the keys of a class.
var classKeys = []key[*classReader]{
	{"hostDir", func(n node, r *classReader) { set(&r.class.HostDir)(readDir(n)) }},
	{"mountDir", func(n node, r *classReader) { set(&r.class.MountDir)(readDir(n)) }},
	{"volumeMode", func(n node, r *classReader) {
		set(&r.class.VolumeMode)(oneOf(n, corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock))
	}},
	{"accessMode", func(n node, r *classReader) {
		set(&r.class.AccessMode)(oneOf(n, corev1.ReadWriteOnce, corev1.ReadWriteOncePod, corev1.ReadOnlyMany, corev1.ReadWriteMany))
	}},
	{"fsType", readFSType},
	{"namePattern", func(n node, r *classReader) { set(&r.class.NamePatterns)(readPatterns(n)) }},
	{"blockCleanerCommand", func(n node, r *classReader) {
		if cleaner, ok := readBlockCleaner(n); ok {
			r.blockCleaner = &cleaner
		}
	}},
	{"fsCleanerCommand", func(n node, r *classReader) { set(&r.class.FilesystemCleaner)(readFilesystemCleaner(n)) }},
	{"cleanTimeout", readCleanTimeout},
	{"existingData", func(n node, r *classReader) {
		set(&r.class.ExistingData)(oneOf(n, ExistingDataRefuse, ExistingDataPublish, ExistingDataClean, ExistingDataAssumeBlank))
	}},
	{"allowDirectories", func(n node, r *classReader) {
		if allowed, ok := n.boolean(); ok {
			r.directories = &allowed
		}
	}},
	{"directoryPattern", func(n node, r *classReader) { set(&r.class.DirectoryPatterns)(readPatterns(n)) }},
	{"volumeName", func(n node, r *classReader) {
		set(&r.class.VolumeName)(oneOf(n, VolumeNameStowage, VolumeNameReference))
	}},
	{"selector", refuseSelector},
}

func readClasses(n node, config *Config) {
	for _, entry := range n.entries("storage classes") {
		if faults := validation.IsDNS1123Subdomain(entry.key); len(faults) > 0 {
			entry.failf("%q cannot be the name of a StorageClass: %s", entry.key, faults[0])
		}
		reader := classReader{class: classDefaults(entry.key)}
		before := len(*n.errs)
		if !readKeys(entry.node, "the keys of a class", classKeys, &reader) && !isEmpty(entry.value) {
			continue
		}
		reader.complete(entry.node, (*n.errs)[before:])
		config.Classes = append(config.Classes, *reader.class)
	}
	checkOverlaps(n, config.Classes)
}

// complete sets the values that depend on others, and reports conflicts. found has the
// findings about the class so far.
func (r *classReader) complete(n node, found Errors) {
	class := r.class
	if class.HostDir == "" && !found.at(n.path.Child("hostDir").String()) {
		n.child("hostDir", nil).failf("must be the folder on the node where the disks of this class are found")
	}
	if class.MountDir == "" {
		class.MountDir = class.HostDir
	}
	block := class.VolumeMode == corev1.PersistentVolumeBlock
	class.BlockCleaner = Cleaner{Method: MethodFSReset}
	if block {
		class.BlockCleaner = Cleaner{Method: MethodZero}
	}
	if r.blockCleaner != nil {
		class.BlockCleaner = *r.blockCleaner
	}
	if block && len(class.FilesystemCleaner.Command()) > 0 {
		n.child("fsCleanerCommand", nil).failf("must be absent with volumeMode Block, which publishes no file system: blockCleanerCommand cleans devices")
	}
	r.completeDirectories(n, found)
}

func (r *classReader) completeDirectories(n node, found Errors) {
	class := r.class
	patternAt := n.child("directoryPattern", nil)
	wanted := r.directories != nil && *r.directories
	switch {
	case wanted && class.VolumeMode == corev1.PersistentVolumeBlock:
		n.child("allowDirectories", nil).failf("must be off with volumeMode Block: a directory is no device")
	case wanted && len(class.DirectoryPatterns) == 0 && !found.at(patternAt.path.String()):
		patternAt.failf("must say which plain directories are volumes, because allowDirectories is on: " +
			"a disk that is not mounted leaves a plain directory too, and must not become a volume")
	case r.directories == nil && len(class.DirectoryPatterns) > 0 && !found.at(n.path.Child("allowDirectories").String()):
		patternAt.failf("has no effect without allowDirectories: write allowDirectories: true, or remove this key")
	case !wanted:
		class.DirectoryPatterns = nil
	}
}

// maxPathBytes is Linux' PATH_MAX.
const maxPathBytes = 4096

// readDir reads a folder. A slash at the end is allowed, since old configurations
// have it.
func readDir(n node) (string, bool) {
	text, ok := n.text()
	if !ok {
		return "", false
	}
	dir := strings.TrimRight(text, "/")
	switch {
	case strings.ContainsFunc(text, unicode.IsControl):
		n.failf("must be a path that can be printed, and is %q", text)
	case len(text) >= maxPathBytes:
		n.failf("must have less than %d bytes, as every path, and has %d", maxPathBytes, len(text))
	case !strings.HasPrefix(text, "/"):
		n.failf("must be an absolute path, and is %q", text)
	case dir == "":
		n.failf("must not be /: every folder of the root file system would be scanned. Name a folder that holds disks and nothing else")
	case path.Clean(dir) != dir:
		n.failf("must be a path without empty elements, . and .., and is %q: write %s", text, path.Clean(dir))
	default:
		return dir, true
	}
	return "", false
}

// fsTypes are the file systems that the provisioner recognizes on a device (package
// superblock), so that kubelet creates them once only.
var fsTypes = []string{"ext2", "ext3", "ext4", "xfs", "btrfs"}

func readFSType(n node, r *classReader) {
	text, ok := n.text()
	if ok && !slices.Contains(fsTypes, text) {
		n.failf("must be ext2, ext3, ext4, xfs or btrfs, and is %q", text)
		return
	}
	set(&r.class.FSType)(text, ok)
}

func readCleanTimeout(n node, r *classReader) {
	timeout, ok := n.duration()
	if ok && timeout != 0 && timeout < minCleanTimeout {
		n.failf("must be at least %s, or 0 for none, and is %s", short(minCleanTimeout), timeout)
		return
	}
	set(&r.class.CleanTimeout)(timeout, ok)
}

// refuseSelector allows an empty list only.
func refuseSelector(n node, _ *classReader) {
	if terms, ok := n.value.([]any); ok && len(terms) == 0 {
		return
	}
	n.failf("must be absent: it lets several nodes use one volume, and then no node can know that it is unused and can be cleaned. " +
		"Remove this key; for disks that several nodes reach, use a CSI driver or write the volumes by hand")
}

// readPatterns reads globs separated by commas.
func readPatterns(n node) ([]string, bool) {
	text, ok := n.text()
	if !ok {
		return nil, false
	}
	patterns := strings.Split(text, ",")
	for _, pattern := range patterns {
		if why := badPattern(pattern); why != "" {
			n.failf("%q %s", text, why)
			ok = false
		}
	}
	return patterns, ok
}

// badPattern returns why a glob can match no name; empty if it can.
func badPattern(pattern string) string {
	_, err := path.Match(pattern, "")
	switch {
	case pattern == "":
		return "has an empty pattern: remove the extra comma"
	case strings.TrimSpace(pattern) != pattern:
		return "has a blank next to a comma or at an end, which no name matches: remove it"
	case strings.Contains(pattern, "/"):
		return "has a slash: patterns are matched with the names in the folder, not with paths"
	case strings.ContainsAny(pattern, "{}"):
		return "has braces, which patterns do not support: list the patterns, separated by commas"
	case err != nil:
		return "has the bad pattern " + pattern + ": a [ must have its ], and a \\ something after it. " +
			"A comma always separates patterns, within [ ] too"
	default:
		return ""
	}
}
