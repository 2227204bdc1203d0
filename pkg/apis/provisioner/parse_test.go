// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// classMap returns the data of a ConfigMap with this key only.
func classMap(yaml string) map[string]string { return map[string]string{classMapKey: yaml} }

// defaulted returns class "fast" with hostDir /mnt/fast, and changes it.
func defaulted(change func(*Class)) Class {
	class := *classDefaults("fast")
	class.HostDir, class.MountDir = "/mnt/fast", "/mnt/fast"
	class.BlockCleaner = Cleaner{Method: MethodFSReset}
	if change != nil {
		change(&class)
	}
	return class
}

func TestParseClass(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		yaml string
		want Class
	}{
		"a hostDir is enough": {"fast: {hostDir: /mnt/fast}", defaulted(nil)},
		"empty values are as absent ones": {
			"fast: {hostDir: /mnt/fast, mountDir: '', fsType: , namePattern: '', blockCleanerCommand: null, selector: []}",
			defaulted(nil),
		},
		"what the reference's chart writes": {`
fast:
   hostDir:  /mnt/fast
   mountDir: /local-ssds
   blockCleanerCommand:
     - "/scripts/shred.sh"
     - "2"
   volumeMode: Filesystem
   fsType: ext4
   namePattern: "nvme*,sd?"
`, defaulted(func(c *Class) {
			c.MountDir = "/local-ssds"
			c.BlockCleaner = Cleaner{Method: MethodShred, Passes: 2}
			c.FSType = "ext4"
			c.NamePatterns = []string{"nvme*", "sd?"}
		})},
		"a slash at the end of a folder is removed": {"fast: {hostDir: /mnt/fast/}", defaulted(nil)},
		"the default for Block leaves no old bytes": {
			"fast: {hostDir: /mnt/fast, volumeMode: Block}",
			defaulted(func(c *Class) {
				c.VolumeMode = corev1.PersistentVolumeBlock
				c.BlockCleaner = Cleaner{Method: MethodZero}
			}),
		},
		"the method of Block can be named before the mode": {
			"fast: {blockCleanerCommand: [blkdiscard], volumeMode: Block, hostDir: /mnt/fast}",
			defaulted(func(c *Class) {
				c.VolumeMode = corev1.PersistentVolumeBlock
				c.BlockCleaner = Cleaner{Method: MethodBlkDiscard}
			}),
		},
		"keys of Stowage only": {`
fast:
  hostDir: /mnt/fast
  accessMode: ReadWriteOncePod
  fsCleanerCommand: [/opt/clean, --all]
  cleanTimeout: 36h
  existingData: Publish
  allowDirectories: true
  directoryPattern: vol-*,[ab]
  volumeName: Reference
`, defaulted(func(c *Class) {
			c.AccessMode = corev1.ReadWriteOncePod
			c.FilesystemCleaner = Cleaner{External: []string{"/opt/clean", "--all"}}
			c.CleanTimeout = 36 * time.Hour
			c.ExistingData = ExistingDataPublish
			c.DirectoryPatterns = []string{"vol-*", "[ab]"}
			c.VolumeName = VolumeNameReference
		})},
		"the pattern of directories that are off has no effect": {
			"fast: {hostDir: /mnt/fast, allowDirectories: false, directoryPattern: vol-*}", defaulted(nil),
		},
		"no timeout, with and without unit": {
			"fast: {hostDir: /mnt/fast, cleanTimeout: 0}",
			defaulted(func(c *Class) { c.CleanTimeout = 0 }),
		},
		"a YAML document may begin with ---": {"---\n# disks\nfast: {hostDir: /mnt/fast}\n", defaulted(nil)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := Parse(classMap(test.yaml))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]Class{test.want}, config.Classes); diff != "" {
				t.Errorf("classes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseDefaults(t *testing.T) {
	t.Parallel()
	got, err := Parse(classMap("fast: {hostDir: /mnt/fast}"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Classes:           []Class{defaulted(nil)},
		MinResyncPeriod:   5 * time.Minute,
		MaxCleaning:       2,
		MaxBlankProofs:    2,
		BlankProofRate:    1 << 30,
		OrphanGracePeriod: 10 * time.Minute,
		ProbeTimeout:      30 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// everything returns every key of the ConfigMap that may be on.
func everything() map[string]string {
	return map[string]string{
		classMapKey:       "slow: {hostDir: /mnt/slow}\nfast: {hostDir: /mnt/fast}\n",
		"nodeLabelsForPV": "- topology.kubernetes.io/zone\n- rack\n- rack\n",
		"labelsForPV":     "team: storage\nempty:\n",
		"useAlphaAPI":     "false\n", "useJobForCleaning": "no", "setPVOwnerRef": `false`,
		"jobTolerations": "- {key: gpu, operator: Equal, value: a, effect: NoExecute, tolerationSeconds: 30}\n" +
			"- operator: Exists\n",
		"minResyncPeriod": "10m0s", "useNodeNameOnly": "true",
		removeTaintKey: "yes", taintKeyKey: "sig-storage-local-static-provisioner/provisioner-not-ready",
		"maxCleaning": "5", "maxBlankProofs": "3", "blankProofRate": "250M", "orphanGracePeriod": "1h", "probeTimeout": "1m",
	}
}

func TestParseEveryKey(t *testing.T) {
	t.Parallel()
	data := everything()
	got, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	slow := defaulted(func(c *Class) { c.Name, c.HostDir, c.MountDir = "slow", "/mnt/slow", "/mnt/slow" })
	want := &Config{
		Classes:         []Class{defaulted(nil), slow},
		NodeLabelsForPV: []string{"topology.kubernetes.io/zone", "rack"},
		LabelsForPV:     map[string]string{"team": "storage", "empty": ""},
		JobTolerations: []corev1.Toleration{
			{Key: "gpu", Operator: "Equal", Value: "a", Effect: "NoExecute", TolerationSeconds: new(int64(30))},
			{Operator: "Exists"},
		},
		UseNodeNameOnly: true, MinResyncPeriod: 10 * time.Minute,
		RemoveNodeNotReadyTaint: true,
		NodeNotReadyTaintKey:    "sig-storage-local-static-provisioner/provisioner-not-ready",
		MaxCleaning:             5, MaxBlankProofs: 3, BlankProofRate: 250_000_000, OrphanGracePeriod: time.Hour, ProbeTimeout: time.Minute,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range namesOf(globalKeys) {
		if _, ok := data[name]; !ok {
			t.Errorf("this test lacks the key %s", name)
		}
	}
	if diff := cmp.Diff(everything(), data); diff != "" {
		t.Errorf("Parse changed its argument:\n%s", diff)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		data map[string]string
		want []string
	}{
		"defaults have no warnings": {classMap("a: {hostDir: /a}\nb: {hostDir: /b, volumeMode: Block}"), nil},
		"fs-reset on file systems is the default": {
			classMap("a: {hostDir: /a, blockCleanerCommand: [/scripts/quick_reset.sh]}"), nil,
		},
		"old bytes, and a file system that is never created": {
			classMap("a: {hostDir: /a, volumeMode: Block, fsType: xfs, blockCleanerCommand: [/scripts/quick_reset.sh]}\n" +
				"b: {hostDir: /b, volumeMode: Block, blockCleanerCommand: [blkdiscard]}"),
			[]string{
				"storageClassMap[a].blockCleanerCommand: after fs-reset, old bytes may be readable by the next claim of a Block volume: the default, zero, makes the device read as zeros",
				"storageClassMap[a].fsType: has no effect with volumeMode Block",
				"storageClassMap[b].blockCleanerCommand: after blkdiscard, old bytes may be readable by the next claim of a Block volume: the default, zero, makes the device read as zeros",
			},
		},
		"what is done to data": {
			classMap("a: {hostDir: /a, existingData: Clean}\nb: {hostDir: /b, existingData: Publish, volumeName: Reference}\nc: {hostDir: /c, existingData: AssumeBlank}"),
			[]string{
				"storageClassMap[a].existingData: a disk that holds data is cleaned when it is found for the first time, without confirmation",
				"storageClassMap[b].existingData: a disk that holds data is published with it, and the claim that gets it can read it",
				"storageClassMap[b].volumeName: the reference's names have 32 bits: two volumes of a large cluster can collide, and then one of them is never published",
				"storageClassMap[c].existingData: a new device is not read from end to end: if it is not blank as assumed, the claim that gets it can read what it holds, or a file system is created over it",
			},
		},
		"keys of the reference without effect": {everything(), []string{
			"jobTolerations: has no effect without useJobForCleaning",
			"useNodeNameOnly: has no effect: volumes always name their node by its name alone",
		}},
		"a method that no Job runs": {
			map[string]string{useJobsKey: "yes", "jobTolerations": "- operator: Exists", classMapKey: "a: {hostDir: /a, blockCleanerCommand: [hdparm]}\nb: {hostDir: /b}"},
			[]string{"storageClassMap[a].blockCleanerCommand: hdparm is run by the provisioner itself, also with useJobForCleaning: only the provisioner knows the drive's password"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := Parse(test.data)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, warning := range config.Warnings() {
				got = append(got, warning.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
