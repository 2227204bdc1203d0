// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/migrate/chartvalues"
)

// reference is values of the chart of sig-storage-local-static-provisioner, and what its templates render for them.
type reference struct {
	values string
	// data is the ConfigMap's.
	data map[string]string
	// classes are StorageClasses, each as NAME RECLAIMPOLICY, with " default" if it is that.
	classes []string
	// mounts are the folders of the node and where they are in the provisioner.
	mounts map[string]string
	// tolerations and further parts of the pods.
	tolerations []corev1.Toleration
	selector    map[string]string
	added       []string // names of init containers and further volumes
}

// references have the keys of the reference's examples and of its values.yaml. Helm separates the names of files by commas, so
// no name has one.
var references = map[string]reference{
	"a class": {
		values:  "classes:\n- {name: nvme-ssd, hostDir: /dev/disk/kubernetes, storageClass: true}",
		data:    map[string]string{"storageClassMap": "nvme-ssd:\n  hostDir: /dev/disk/kubernetes\n  mountDir: /dev/disk/kubernetes\n"},
		classes: []string{"nvme-ssd Delete"},
		mounts:  map[string]string{"/dev/disk/kubernetes": "/dev/disk/kubernetes"},
	},
	"the reference's defaults": {
		values: "{}",
		data: map[string]string{"storageClassMap": `
fast-disks:
  hostDir: /mnt/fast-disks
  mountDir: /mnt/fast-disks
  blockCleanerCommand:
    - "/scripts/shred.sh"
    - "2"
  volumeMode: Filesystem
  fsType: ext4
  namePattern: "*"
`},
		mounts: map[string]string{"/mnt/fast-disks": "/mnt/fast-disks"},
	},
	"watched block devices": {
		values: `
classes:
- name: local-storage
  hostDir: /mnt/disks
  blockCleanerCommand: [/scripts/dd_zero.sh, 2]
  volumeMode: Block
  storageClass: {reclaimPolicy: Retain, isDefaultClass: true}
serviceMonitor: {enabled: true, interval: 20s, additionalLabels: {release: prometheus}}
`,
		data: map[string]string{"storageClassMap": `
local-storage:
  hostDir: /mnt/disks
  mountDir: /mnt/disks
  blockCleanerCommand:
    - "/scripts/dd_zero.sh"
    - "2"
  volumeMode: Block
`},
		classes: []string{"local-storage Retain default"},
		mounts:  map[string]string{"/mnt/disks": "/mnt/disks"},
	},
	"all keys of the ConfigMap": {
		values: `
useJobForCleaning: true
minResyncPeriod: 7m0s
labelsForPV: {team: storage}
nodeLabels: [topology.kubernetes.io/zone]
tolerations: [{key: storage, operator: Exists}]
removeNodeNotReadyTaint: true
provisionerNotReadyNodeTaintKey: example.com/not-ready
nodeSelector: {disks: many}
classes:
- {name: local-disks, hostDir: /srv/disks, mountDir: /disks, accessMode: ReadWriteOncePod, namePattern: "sd*", fsType: xfs, storageClass: {}}
- {name: scratch, hostDir: /srv/scratch, storageClass: true}
`,
		data: map[string]string{
			"useJobForCleaning": "yes", "minResyncPeriod": "7m0s", "labelsForPV": "team : storage\n", "nodeLabelsForPV": "- topology.kubernetes.io/zone\n",
			"jobTolerations": "- key: storage\n  operator: Exists\n", "removeNodeNotReadyTaint": "true", "provisionerNotReadyNodeTaintKey": "example.com/not-ready",
			"storageClassMap": `
local-disks:
  hostDir: /srv/disks
  mountDir: /disks
  accessMode: ReadWriteOncePod
  fsType: xfs
  namePattern: "sd*"
scratch:
  hostDir: /srv/scratch
  mountDir: /srv/scratch
`},
		classes:     []string{"scratch Delete"},
		mounts:      map[string]string{"/srv/disks": "/disks", "/srv/scratch": "/srv/scratch"},
		tolerations: []corev1.Toleration{{Key: "storage", Operator: corev1.TolerationOpExists}, {Key: "example.com/not-ready", Operator: corev1.TolerationOpExists}},
		selector:    map[string]string{"disks": "many"},
	},
	"a version before 2.0": {
		values: `
common: {labelsForPV: {a: b}, additionalHostPathVolumes: {udev: /run/udev}}
daemonset:
  image: registry.example/local-volume-provisioner:v2.5.0
  imagePullPolicy: Always
  priorityClassName: system-node-critical
  podAnnotations: {a: b}
  podLabels: {c: d}
  resources: {limits: {memory: 512Mi}}
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [localssd]}]}]}}}
  kubeConfigEnv: /etc/kubeconfig
classes:
- {name: fast, hostDir: /mnt/fast, storageClass: true}
`,
		data:    map[string]string{"labelsForPV": "a : b\n", "storageClassMap": "fast:\n   hostDir:  /mnt/fast\n   mountDir: /mnt/fast\n"},
		classes: []string{"fast Delete"}, mounts: map[string]string{"/mnt/fast": "/mnt/fast"}, added: []string{"udev"},
	},
	"init containers and volumes": {
		values: `
additionalVolumes: [{name: signal, emptyDir: {}}]
additionalVolumeMounts: [{name: signal, mountPath: /etc/signal, readOnly: true}]
initContainers: [{name: format, image: "alpine:3", command: [/bin/sh], volumeMounts: [{name: signal, mountPath: /etc/signal}]}]
updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 2}}
additionalArgs: [--v=2]
imagePullSecrets: [{name: mine}]
classes:
- {name: fast, hostDir: /mnt/fast}
`,
		data:   map[string]string{"storageClassMap": "fast:\n  hostDir: /mnt/fast\n  mountDir: /mnt/fast\n"},
		mounts: map[string]string{"/mnt/fast": "/mnt/fast"}, added: []string{"format", "signal"},
	},
	"node cleanup": {
		values: `
nodeCleanupController: {enabled: true, storageClassNames: [fast], pvcDeletionDelay: 60s, resources: {limits: {cpu: 100m}}}
classes:
- {name: fast, hostDir: /mnt/fast, storageClass: true}
`,
		data:    map[string]string{"storageClassMap": "fast:\n  hostDir: /mnt/fast\n  mountDir: /mnt/fast\n"},
		classes: []string{"fast Delete"}, mounts: map[string]string{"/mnt/fast": "/mnt/fast"},
	},
}

// TestConvertedValues: the schema accepts converted values, and the chart renders for them a configuration of the same meaning,
// the same StorageClasses, and provisioners on the same nodes.
func TestConvertedValues(t *testing.T) {
	t.Parallel()
	for name, want := range references {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantConfig, err := provisioner.Decode(want.data)
			if err != nil {
				t.Fatal(err)
			}
			got := reference{mounts: map[string]string{}}
			for _, o := range convert(t, want.values) {
				switch {
				case o.GetKind() == "ConfigMap" && o.GetName() == "stowage-provisioner":
					config, err := provisioner.Decode(as[corev1.ConfigMap](t, o).Data)
					if err != nil {
						t.Fatal(err)
					}
					if diff := gocmp.Diff(wantConfig, config); diff != "" {
						t.Errorf("configuration (-reference +converted):\n%s", diff)
					}
				case o.GetKind() == "StorageClass":
					got.classes = append(got.classes, storageClass(as[storagev1.StorageClass](t, o)))
				case o.GetKind() == "DaemonSet" && o.GetName() == "stowage-provisioner":
					got.pod(as[appsv1.DaemonSet](t, o).Spec.Template.Spec)
				}
			}
			slices.Sort(got.classes)
			want.values, want.data = "", nil
			if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(reference{})); diff != "" {
				t.Errorf("objects (-reference +converted):\n%s", diff)
			}
		})
	}
}

// convert returns the objects of the chart for converted values.
func convert(t *testing.T, reference string) []object {
	t.Helper()
	var values map[string]any
	if err := utilyaml.UnmarshalStrict([]byte(reference), &values); err != nil {
		t.Fatal(err)
	}
	result, err := chartvalues.Convert(values)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(result.Values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := command(t, tools.helm, "template", release, chart, "--namespace", namespace, "--kube-version", "1.37.1", "--values", file)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, out)
}

func storageClass(class *storagev1.StorageClass) string {
	text := class.Name + " " + string(*class.ReclaimPolicy)
	if class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
		text += " default"
	}
	return text
}

// pod adds what the pods of the provisioner have.
func (r *reference) pod(pod corev1.PodSpec) {
	r.tolerations = append(r.tolerations, pod.Tolerations...)
	for key, value := range pod.NodeSelector {
		if key != corev1.LabelOSStable {
			r.selector = map[string]string{key: value}
		}
	}
	for _, c := range pod.InitContainers {
		r.added = append(r.added, c.Name)
	}
	at := map[string]string{}
	for _, m := range pod.Containers[0].VolumeMounts {
		at[m.Name] = m.MountPath
	}
	for _, v := range pod.Volumes {
		switch {
		case strings.HasPrefix(v.Name, "disks"):
			r.mounts[v.HostPath.Path] = at[v.Name]
		case v.Name == "signal" || v.Name == "udev":
			r.added = append(r.added, v.Name)
		}
	}
}
