// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	classMapKey    = "storageClassMap"
	removeTaintKey = "removeNodeNotReadyTaint"
	taintKeyKey    = "provisionerNotReadyNodeTaintKey"
	useJobsKey     = "useJobForCleaning"
)

// classMap returns the data of a ConfigMap with this key only.
func classMap(yaml string) map[string]string { return map[string]string{classMapKey: yaml} }

// defaulted returns class "fast" with hostDir /mnt/fast, and changes it.
func defaulted(change func(*Class)) Class {
	class := Class{
		HostDir: "/mnt/fast", MountDir: "/mnt/fast", VolumeMode: "Filesystem", AccessMode: "ReadWriteOnce", NamePattern: "*", BlockCleanerCommand: []string{"fs-reset"},
		CleanTimeout: &metav1.Duration{Duration: 7 * 24 * time.Hour}, ExistingData: ExistingDataRefuse, VolumeName: VolumeNameStowage, Mount: MountKubelet,
	}
	if change != nil {
		change(&class)
	}
	return class
}

func TestDecodeClass(t *testing.T) {
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
			c.BlockCleanerCommand = []string{"shred", "2"}
			c.FSType = "ext4"
			c.NamePattern = "nvme*,sd?"
		})},
		"a slash at the end of a folder is removed": {"fast: {hostDir: /mnt/fast/}", defaulted(nil)},
		"the default for Block leaves no old bytes": {
			"fast: {hostDir: /mnt/fast, volumeMode: Block}",
			defaulted(func(c *Class) {
				c.VolumeMode = corev1.PersistentVolumeBlock
				c.BlockCleanerCommand = []string{"zero"}
			}),
		},
		"the method of Block can be named before the mode": {
			"fast: {blockCleanerCommand: [blkdiscard], volumeMode: Block, hostDir: /mnt/fast}",
			defaulted(func(c *Class) {
				c.VolumeMode = corev1.PersistentVolumeBlock
				c.BlockCleanerCommand = []string{"blkdiscard"}
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
			c.FSCleanerCommand = []string{"/opt/clean", "--all"}
			c.CleanTimeout = &metav1.Duration{Duration: 36 * time.Hour}
			c.ExistingData = ExistingDataPublish
			c.AllowDirectories, c.DirectoryPattern = new(true), "vol-*,[ab]"
			c.VolumeName = VolumeNameReference
		})},
		"the pattern of directories that are off has no effect": {
			"fast: {hostDir: /mnt/fast, allowDirectories: false, directoryPattern: vol-*}",
			defaulted(func(c *Class) { c.AllowDirectories, c.DirectoryPattern = new(false), "vol-*" }),
		},
		"no timeout, with and without unit": {
			"fast: {hostDir: /mnt/fast, cleanTimeout: 0}",
			defaulted(func(c *Class) { c.CleanTimeout = &metav1.Duration{} }),
		},
		"a YAML document may begin with ---": {"---\n# disks\nfast: {hostDir: /mnt/fast}\n", defaulted(nil)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := Decode(classMap(test.yaml))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]Class{"fast": test.want}, config.Classes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("classes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeDefaults(t *testing.T) {
	t.Parallel()
	got, err := Decode(classMap("fast: {hostDir: /mnt/fast}"))
	if err != nil {
		t.Fatal(err)
	}
	want := &ProvisionerConfiguration{
		Classes:           map[string]Class{"fast": defaulted(nil)},
		MinResyncPeriod:   &metav1.Duration{Duration: 5 * time.Minute},
		MaxCleaning:       new(int32(2)),
		MaxBlankProofs:    new(int32(2)),
		BlankProofRate:    new(resource.MustParse("1Gi")),
		OrphanGracePeriod: &metav1.Duration{Duration: 10 * time.Minute},
		ProbeTimeout:      &metav1.Duration{Duration: 30 * time.Second},
		DiskHealth: DiskHealth{
			Enabled: new(true), HungAfter: &metav1.Duration{Duration: 15 * time.Second}, DegradedErrors: new(int32(1)), FailingErrors: new(int32(10)),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// everything returns every key of the ConfigMap that may be on.
func everything() map[string]string {
	return map[string]string{
		classMapKey:       "slow: {hostDir: /mnt/slow}\nfast: {hostDir: /mnt/fast}\n",
		"nodeLabelsForPV": "- topology.kubernetes.io/zone\n- rack\n",
		"labelsForPV":     "team: storage\nempty:\n",
		"useAlphaAPI":     "false\n", "useJobForCleaning": "no", "setPVOwnerRef": `false`,
		"jobTolerations": "- {key: gpu, operator: Equal, value: a, effect: NoExecute, tolerationSeconds: 30}\n" +
			"- operator: Exists\n",
		"minResyncPeriod": "10m0s", "useNodeNameOnly": "true",
		removeTaintKey: "yes", taintKeyKey: "sig-storage-local-static-provisioner/provisioner-not-ready",
		"maxCleaning": "5", "maxBlankProofs": "3", "blankProofRate": "250M", "orphanGracePeriod": "1h", "probeTimeout": "1m", "listDisks": "true",
		"diskHealth": "{enabled: false, hungAfter: 20s, degradedErrors: 2, failingErrors: 3}",
	}
}

func TestDecodeEveryKey(t *testing.T) {
	t.Parallel()
	data := everything()
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	slow := defaulted(func(c *Class) { c.HostDir, c.MountDir = "/mnt/slow", "/mnt/slow" })
	want := &ProvisionerConfiguration{
		Classes:         map[string]Class{"fast": defaulted(nil), "slow": slow},
		NodeLabelsForPV: []string{"topology.kubernetes.io/zone", "rack"},
		LabelsForPV:     map[string]string{"team": "storage", "empty": ""},
		JobTolerations: []corev1.Toleration{
			{Key: "gpu", Operator: "Equal", Value: "a", Effect: "NoExecute", TolerationSeconds: new(int64(30))},
			{Operator: "Exists"},
		},
		UseNodeNameOnly: true, MinResyncPeriod: &metav1.Duration{Duration: 10 * time.Minute},
		RemoveNodeNotReadyTaint: true,
		NodeNotReadyTaintKey:    "sig-storage-local-static-provisioner/provisioner-not-ready",
		MaxCleaning:             new(int32(5)), MaxBlankProofs: new(int32(3)), BlankProofRate: new(resource.MustParse("250M")),
		OrphanGracePeriod: &metav1.Duration{Duration: time.Hour}, ProbeTimeout: &metav1.Duration{Duration: time.Minute}, ListDisks: true,
		DiskHealth: DiskHealth{
			Enabled: new(false), HungAfter: &metav1.Duration{Duration: 20 * time.Second}, DegradedErrors: new(int32(2)), FailingErrors: new(int32(3)),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range keysOf(ProvisionerConfiguration{}) {
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
			config, err := Decode(test.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, config.Warnings()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
