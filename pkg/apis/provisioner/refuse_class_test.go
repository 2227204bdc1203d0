// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const allowedInClass = "hostDir, mountDir, volumeMode, accessMode, fsType, namePattern, blockCleanerCommand, fsCleanerCommand, " +
	"cleanTimeout, existingData, allowDirectories, directoryPattern, volumeName, selector"

// refused parses what must be refused, and returns each error.
func refused(t *testing.T, data map[string]string) []string {
	t.Helper()
	config, err := Parse(data)
	var errs Errors
	if !errors.As(err, &errs) {
		t.Fatalf("got %+v and error %v, want Errors", config, err)
	}
	var lines []string
	for _, finding := range errs {
		lines = append(lines, finding.String())
	}
	if diff := cmp.Diff(strings.Join(lines, "\n"), err.Error()); diff != "" {
		t.Errorf("the error is not its findings, a line each:\n%s", diff)
	}
	return lines
}

// TestRefuseInClass: errors in a class with hostDir /mnt/fast, and their findings, each beginning
// with the path of the key.
func TestRefuseInClass(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		yaml string
		want string
	}{
		"a misspelt key":             {"namePatern: a", "namePatern: unknown key: allowed are " + allowedInClass},
		"a key in the wrong case":    {"mountdir: /a", "mountdir: unknown key: write mountDir"},
		"a relative folder":          {"mountDir: mnt", `mountDir: must be an absolute path, and is "mnt"`},
		"a folder that climbs":       {"mountDir: /mnt/../etc", `mountDir: must be a path without empty elements, . and .., and is "/mnt/../etc": write /etc`},
		"two slashes":                {"mountDir: /mnt//a", `mountDir: must be a path without empty elements, . and .., and is "/mnt//a": write /mnt/a`},
		"the root":                   {"mountDir: /", "mountDir: must not be /: every folder of the root file system would be scanned. Name a folder that holds disks and nothing else"},
		"a folder with a line break": {`mountDir: "/a\nb"`, `mountDir: must be a path that can be printed, and is "/a\nb"`},
		"a folder that is a number":  {"mountDir: 12", "mountDir: must be a string, and YAML reads the number 12 here: put it in quotes"},
		"a folder that is a list":    {"mountDir: [/a]", "mountDir: must be a string, and is a list"},
		"a mode in the wrong case":   {"volumeMode: block", `volumeMode: must be Filesystem or Block, and is "block"`},
		"an access mode that is none": {"accessMode: RWO",
			`accessMode: must be ReadWriteOnce, ReadWriteOncePod, ReadOnlyMany or ReadWriteMany, and is "RWO"`},
		"a file system with options":                       {"fsType: ext4 -F", `fsType: must be ext2, ext3, ext4, xfs or btrfs, and is "ext4 -F"`},
		"a file system that is not recognized on a device": {"fsType: f2fs", `fsType: must be ext2, ext3, ext4, xfs or btrfs, and is "f2fs"`},
		"a file system that is a path": {"fsType: ../../bin/sh",
			`fsType: must be ext2, ext3, ext4, xfs or btrfs, and is "../../bin/sh"`},

		"a comma too many":         {"namePattern: 'a,'", `namePattern: "a," has an empty pattern: remove the extra comma`},
		"a blank beside a comma":   {"namePattern: 'a, b'", `namePattern: "a, b" has a blank next to a comma or at an end, which no name matches: remove it`},
		"a pattern with a slash":   {"namePattern: by-id/*", `namePattern: "by-id/*" has a slash: patterns are matched with the names in the folder, not with paths`},
		"a pattern with braces":    {"namePattern: 'sd{a}'", `namePattern: "sd{a}" has braces, which patterns do not support: list the patterns, separated by commas`},
		"a bracket left open":      {"namePattern: 'sd[a'", `namePattern: "sd[a" has the bad pattern sd[a: a [ must have its ], and a \ something after it. A comma always separates patterns, within [ ] too`},
		"a bad directory pattern":  {"{allowDirectories: true, directoryPattern: '/*'}", `directoryPattern: "/*" has a slash: patterns are matched with the names in the folder, not with paths`},
		"directories of all names": {"allowDirectories: true", "directoryPattern: must say which plain directories are volumes, because allowDirectories is on: a disk that is not mounted leaves a plain directory too, and must not become a volume"},
		"a pattern for nothing":    {"directoryPattern: a", "directoryPattern: has no effect without allowDirectories: write allowDirectories: true, or remove this key"},
		"directories as devices": {"{volumeMode: Block, allowDirectories: true, directoryPattern: a}",
			"allowDirectories: must be off with volumeMode Block: a directory is no device"},

		"an unknown method": {"blockCleanerCommand: [wipe]",
			`blockCleanerCommand: "wipe" is neither a built-in method (fs-reset, zero, blkdiscard, dd-zero, shred, hdparm) nor a program: programs are named by an absolute path without . and ..`},
		"a program that climbs": {"blockCleanerCommand: [/opt/../bin/sh]",
			`blockCleanerCommand: "/opt/../bin/sh" is neither a built-in method (fs-reset, zero, blkdiscard, dd-zero, shred, hdparm) nor a program: programs are named by an absolute path without . and ..`},
		"an empty word": {"blockCleanerCommand: ['']",
			`blockCleanerCommand: "" is neither a built-in method (fs-reset, zero, blkdiscard, dd-zero, shred, hdparm) nor a program: programs are named by an absolute path without . and ..`},
		"a command as one string": {"blockCleanerCommand: /scripts/shred.sh 2",
			`blockCleanerCommand: must be a list of words, the command first and then its arguments, each on a line of its own after a dash, and is the string "/scripts/shred.sh 2"`},
		"a command without words":     {"blockCleanerCommand: []", "blockCleanerCommand: must name a command: write one, or remove this key for the default"},
		"a word that YAML changes":    {"blockCleanerCommand: [/opt/wipe, yes]", "blockCleanerCommand[1]: must be a string, and YAML reads the boolean true here: put it in quotes"},
		"a fraction":                  {"blockCleanerCommand: [shred, 1.5]", "blockCleanerCommand[1]: must be a string, and YAML reads the number 1.5 here: put it in quotes"},
		"a word that exec rejects":    {`blockCleanerCommand: [/opt/wipe, "a\0b"]`, "blockCleanerCommand[1]: must be without the character 0, which ends a word"},
		"an argument without meaning": {`blockCleanerCommand: [zero, "2"]`, `blockCleanerCommand: zero takes no arguments, and has ["2"]`},
		"no pass":                     {`blockCleanerCommand: [/scripts/shred.sh, "0"]`, `blockCleanerCommand: /scripts/shred.sh takes one argument, how often to overwrite (1 to 100), and has ["0"]`},
		"passes without end":          {`blockCleanerCommand: [dd-zero, "101"]`, `blockCleanerCommand: dd-zero takes one argument, how often to overwrite (1 to 100), and has ["101"]`},
		"two arguments":               {`blockCleanerCommand: [dd-zero, "1", "2"]`, `blockCleanerCommand: dd-zero takes one argument, how often to overwrite (1 to 100), and has ["1" "2"]`},
		"a device's method for files": {"fsCleanerCommand: [zero]",
			`fsCleanerCommand: must begin with the absolute path of a program, and begins with "zero": the built-in methods clean devices. Without this key the provisioner removes the files itself`},
		"a device's script for files": {"fsCleanerCommand: [/scripts/shred.sh]",
			`fsCleanerCommand: must begin with the absolute path of a program, and begins with "/scripts/shred.sh": the built-in methods clean devices. Without this key the provisioner removes the files itself`},
		"files of devices": {"{volumeMode: Block, fsCleanerCommand: [/opt/clean]}",
			"fsCleanerCommand: must be absent with volumeMode Block, which publishes no file system: blockCleanerCommand cleans devices"},

		"a time without unit":     {"cleanTimeout: 30", "cleanTimeout: must be a time with its unit, such as 90s, 5m or 36h, and is the number 30"},
		"a time with days":        {"cleanTimeout: 3d", `cleanTimeout: must be a time with its unit, such as 90s, 5m or 36h, and is the string "3d"`},
		"a time before now":       {"cleanTimeout: -1s", "cleanTimeout: must be at least 1s, or 0 for none, and is -1s"},
		"an unknown existingData": {"existingData: Keep", `existingData: must be Refuse, Publish, Clean or AssumeBlank, and is "Keep"`},
		"an unknown volumeName":   {"volumeName: Short", `volumeName: must be Stowage or Reference, and is "Short"`},
		"a switch in two words":   {"allowDirectories: sometimes", `allowDirectories: must be true or false, and is the string "sometimes"`},
		"disks of many nodes": {"selector: [{matchExpressions: []}]", "selector: must be absent: it lets several nodes use one volume, and then no node can know that it is unused and can be cleaned. " +
			"Remove this key; for disks that several nodes reach, use a CSI driver or write the volumes by hand"},
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
