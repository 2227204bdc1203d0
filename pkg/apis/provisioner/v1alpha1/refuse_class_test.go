// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const allowedInClass = "hostDir, mountDir, devices, volumeMode, accessMode, fsType, mount, namePattern, blockCleanerCommand, fsCleanerCommand, " +
	"cleanTimeout, existingData, allowDirectories, directoryPattern, volumeName, selector"

// refused parses what must be refused, and returns each error.
func refused(t *testing.T, data map[string]string) []string {
	t.Helper()
	config, err := Decode(data)
	var errs Errors
	if !errors.As(err, &errs) {
		t.Fatalf("got %+v and error %v, want Errors", config, err)
	}
	return strings.Split(errs.Error(), "\n")
}

// TestRefuseInClass: errors in a class with hostDir /mnt/fast, and their findings, each beginning
// with the path of the key.
func TestRefuseInClass(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		yaml string
		want string
	}{
		"a misspelt key":                                   {"namePatern: a", "namePatern: Forbidden: unknown key: allowed are " + allowedInClass},
		"a key in the wrong case":                          {"mountdir: /a", "mountdir: Forbidden: unknown key: write mountDir"},
		"an unknown key without a value":                   {"mountdir:", "mountdir: Forbidden: unknown key: write mountDir"},
		"a relative folder":                                {"mountDir: mnt", `mountDir: Invalid value: "mnt": must be an absolute path`},
		"a folder that climbs":                             {"mountDir: /mnt/../etc", `mountDir: Invalid value: "/mnt/../etc": must be a path without empty elements, . and ..: write /etc`},
		"two slashes":                                      {"mountDir: /mnt//a", `mountDir: Invalid value: "/mnt//a": must be a path without empty elements, . and ..: write /mnt/a`},
		"the root":                                         {"mountDir: /", `mountDir: Invalid value: "/": must not be /: every folder of the root file system would be scanned. Name a folder that holds disks and nothing else`},
		"a folder with a line break":                       {`mountDir: "/a\nb"`, `mountDir: Invalid value: "/a\nb": must be a path that can be printed`},
		"a folder that is a number":                        {"mountDir: 12", "mountDir: Invalid value: 12: must be a string: put it in quotes"},
		"a folder that is a list":                          {"mountDir: [/a]", "mountDir: Invalid value: must be a string: put it in quotes"},
		"a mode in the wrong case":                         {"volumeMode: block", `volumeMode: Unsupported value: "block": supported values: "Block", "Filesystem"`},
		"an access mode that is none":                      {"accessMode: RWO", `accessMode: Unsupported value: "RWO": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`},
		"a file system with options":                       {"fsType: ext4 -F", `fsType: Unsupported value: "ext4 -F": supported values: "btrfs", "ext2", "ext3", "ext4", "xfs"`},
		"a file system that is not recognized on a device": {"fsType: f2fs", `fsType: Unsupported value: "f2fs": supported values: "btrfs", "ext2", "ext3", "ext4", "xfs"`},
		"a file system that is a path":                     {"fsType: ../../bin/sh", `fsType: Unsupported value: "../../bin/sh": supported values: "btrfs", "ext2", "ext3", "ext4", "xfs"`},

		"a mount that is none":                        {"mount: agent", `mount: Unsupported value: "agent": supported values: "Agent", "Kubelet"`},
		"a mount of raw devices":                      {"{mount: Agent, volumeMode: Block}", "mount: Forbidden: must be Kubelet with volumeMode Block, which has no file system"},
		"a mount without fsType":                      {"mount: Agent", "fsType: Required value: must be the file system that the provisioner makes, because mount is Agent"},
		"a mount of a file system of several devices": {"{mount: Agent, fsType: btrfs}", `fsType: Invalid value: "btrfs": must be one of ext2, ext3, ext4, xfs with mount Agent`},
		"a mount of data of unknown origin":           {"{mount: Agent, fsType: xfs, existingData: Publish}", "existingData: Forbidden: must not be Publish with mount Agent: volumes have only file systems that the provisioner made"},

		"a comma too many":         {"namePattern: 'a,'", `namePattern: Invalid value: "a,": has an empty pattern: remove the extra comma`},
		"a blank beside a comma":   {"namePattern: 'a, b'", `namePattern: Invalid value: "a, b": has a blank next to a comma or at an end, which no name matches: remove it`},
		"a pattern with a slash":   {"namePattern: by-id/*", `namePattern: Invalid value: "by-id/*": has a slash: patterns are matched with the names in the folder, not with paths`},
		"a pattern with braces":    {"namePattern: 'sd{a}'", `namePattern: Invalid value: "sd{a}": has braces, which patterns do not support: list the patterns, separated by commas`},
		"a bracket left open":      {"namePattern: 'sd[a'", `namePattern: Invalid value: "sd[a": has the bad pattern sd[a: a [ must have its ], and a \ something after it. A comma always separates patterns, within [ ] too`},
		"a bad directory pattern":  {"{allowDirectories: true, directoryPattern: '/*'}", `directoryPattern: Invalid value: "/*": has a slash: patterns are matched with the names in the folder, not with paths`},
		"directories of all names": {"allowDirectories: true", "directoryPattern: Required value: must say which plain directories are volumes, because allowDirectories is on: a disk that is not mounted leaves a plain directory too, and must not become a volume"},
		"a pattern for nothing":    {"directoryPattern: a", "directoryPattern: Forbidden: has no effect without allowDirectories: write allowDirectories: true, or remove this key"},
		"directories as devices":   {"{volumeMode: Block, allowDirectories: true, directoryPattern: a}", "allowDirectories: Forbidden: must be off with volumeMode Block: a directory is no device"},

		"an unknown method":           {"blockCleanerCommand: [wipe]", `blockCleanerCommand: Invalid value: "wipe": is neither a built-in method (fs-reset, zero, blkdiscard, dd-zero, shred, hdparm) nor a program: programs are named by an absolute path without . and ..`},
		"a program that climbs":       {"blockCleanerCommand: [/opt/../bin/sh]", `blockCleanerCommand: Invalid value: "/opt/../bin/sh": is neither a built-in method (fs-reset, zero, blkdiscard, dd-zero, shred, hdparm) nor a program: programs are named by an absolute path without . and ..`},
		"an empty word":               {"blockCleanerCommand: ['']", `blockCleanerCommand: Invalid value: "": is neither a built-in method (fs-reset, zero, blkdiscard, dd-zero, shred, hdparm) nor a program: programs are named by an absolute path without . and ..`},
		"a command as one string":     {"blockCleanerCommand: /scripts/shred.sh 2", `blockCleanerCommand: Invalid value: "/scripts/shred.sh 2": must be a list, each item on a line of its own after a dash`},
		"a command without words":     {"blockCleanerCommand: []", "blockCleanerCommand: Required value: must name a command: write one, or remove this key for the default"},
		"a word that YAML changes":    {"blockCleanerCommand: [/opt/wipe, yes]", "blockCleanerCommand[1]: Invalid value: true: must be a string: put it in quotes"},
		"a fraction":                  {"blockCleanerCommand: [shred, 1.5]", "blockCleanerCommand[1]: Invalid value: 1.5: must be a string: put it in quotes"},
		"a word that exec rejects":    {`blockCleanerCommand: [/opt/wipe, "a\0b"]`, `blockCleanerCommand[1]: Invalid value: "a\x00b": must be without the character 0, which ends a word`},
		"an argument without meaning": {`blockCleanerCommand: [zero, "2"]`, `blockCleanerCommand: Invalid value: "2": zero takes no arguments`},
		"no pass":                     {`blockCleanerCommand: [/scripts/shred.sh, "0"]`, `blockCleanerCommand: Invalid value: "0": shred takes one argument, how often to overwrite (1 to 100)`},
		"passes without end":          {`blockCleanerCommand: [dd-zero, "101"]`, `blockCleanerCommand: Invalid value: "101": dd-zero takes one argument, how often to overwrite (1 to 100)`},
		"two arguments":               {`blockCleanerCommand: [dd-zero, "1", "2"]`, `blockCleanerCommand: Invalid value: "1 2": dd-zero takes one argument, how often to overwrite (1 to 100)`},
		"a device's method for files": {"fsCleanerCommand: [zero]", `fsCleanerCommand: Invalid value: "zero": must begin with the absolute path of a program: the built-in methods clean devices. Without this key the provisioner removes the files itself`},
		"a device's script for files": {"fsCleanerCommand: [/scripts/shred.sh]", `fsCleanerCommand: Invalid value: "/scripts/shred.sh": must begin with the absolute path of a program: the built-in methods clean devices. Without this key the provisioner removes the files itself`},
		"files of devices":            {"{volumeMode: Block, fsCleanerCommand: [/opt/clean]}", "fsCleanerCommand: Forbidden: must be absent with volumeMode Block, which publishes no file system: blockCleanerCommand cleans devices"},

		"a time without unit":     {"cleanTimeout: 30", "cleanTimeout: Invalid value: 30: must be a time with its unit, such as 90s, 5m or 36h"},
		"a time with days":        {"cleanTimeout: 3d", `cleanTimeout: Invalid value: "3d": must be a time with its unit, such as 90s, 5m or 36h`},
		"a time before now":       {"cleanTimeout: -1s", `cleanTimeout: Invalid value: "-1s": must be at least 1s, or 0 for none`},
		"an unknown existingData": {"existingData: Keep", `existingData: Unsupported value: "Keep": supported values: "AssumeBlank", "Clean", "Publish", "Refuse"`},
		"an unknown volumeName":   {"volumeName: Short", `volumeName: Unsupported value: "Short": supported values: "Reference", "Stowage"`},
		"a switch in two words":   {"allowDirectories: sometimes", `allowDirectories: Invalid value: "sometimes": must be true or false`},
		"disks of many nodes":     {"selector: [{matchExpressions: []}]", "selector: Forbidden: must be absent: it lets several nodes use one volume, and then no node can know that it is unused and can be cleaned. Remove this key; for disks that several nodes reach, use a CSI driver or write the volumes by hand"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, flow := strings.CutPrefix(test.yaml, "{")
			body = strings.TrimSuffix(body, map[bool]string{true: "}"}[flow])
			if flow {
				body = "{hostDir: /mnt/fast, " + body + "}"
			} else {
				body = "\n  hostDir: /mnt/fast\n  " + body + "\n"
			}
			want := []string{"storageClassMap[fast]." + test.want}
			if diff := cmp.Diff(want, refused(t, classMap("fast: "+body))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
