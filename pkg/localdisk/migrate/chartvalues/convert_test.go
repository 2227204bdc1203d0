// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package chartvalues

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// decode returns values as the kubectl plugin reads them.
func decode(t *testing.T, text string) (values map[string]any) {
	t.Helper()
	if err := utilyaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// fast is a class, and want its conversion.
const (
	fast = `
classes:
- name: fast
  hostDir: /mnt/fast
  storageClass: true
`
	fastWant = `
provisioner:
  classes:
    fast:
      settings: {hostDir: /mnt/fast}
      storageClass: {create: true}
    local-disks: null
  tolerations: []
`
)

func TestConvert(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values string
		// more are values beside those of fastWant, or all if all is set.
		more string
		all  bool
		warn []string
	}{
		"a class": {},
		"no values: the reference's default class": {
			values: "{}", all: true, more: `
provisioner:
  classes:
    fast-disks:
      settings: {hostDir: /mnt/fast-disks, volumeMode: Filesystem, fsType: ext4, namePattern: "*", blockCleanerCommand: [/scripts/shred.sh, "2"]}
      storageClass: {create: false}
    local-disks: null
  tolerations: []
`, warn: []string{"classes: not set: the reference's default class is converted"},
		},
		"all of a class": {
			values: `
classes:
- name: raw
  hostDir: /mnt/raw
  mountDir: /raw
  volumeMode: Filesystem
  accessMode: ReadWriteOncePod
  fsType: xfs
  namePattern: "nvme*"
  blockCleanerCommand: [/scripts/dd_zero.sh, 2]
  storageClass: {reclaimPolicy: Retain, isDefaultClass: true, annotations: {team: storage}}
`, all: true, more: `
provisioner:
  classes:
    raw:
      settings: {hostDir: /mnt/raw, mountDir: /raw, volumeMode: Filesystem, accessMode: ReadWriteOncePod, fsType: xfs, namePattern: "nvme*", blockCleanerCommand: [/scripts/dd_zero.sh, "2"]}
      storageClass: {create: true, reclaimPolicy: Retain, annotations: {team: storage, storageclass.kubernetes.io/is-default-class: "true"}}
    local-disks: null
  tolerations: []
`,
		},
		"a class of the sample's name": {
			values: "classes: [{name: local-disks, hostDir: /mnt/fast, fsType: '', storageClass: {}}]", all: true,
			more: `provisioner: {classes: {local-disks: {settings: {hostDir: /mnt/fast}, storageClass: {create: false}}}, tolerations: []}`,
		},
		"disks of several nodes are not published": {
			values: fast + "- {name: shared, hostDir: /mnt/shared, selector: [{matchExpressions: [{key: a, operator: Exists}]}]}",
			warn:   []string{"classes[1].selector: volumes have one node each, so the class is not converted: for disks that several nodes share, use a CSI driver or volumes written by hand"},
		},
		"StorageClasses that the chart cannot make": {
			values: `
classes:
- {name: a, hostDir: /a, storageClass: {provisioner: mine}}
- {name: b, hostDir: /b, storageClass: true, allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [a]}]}]}
- {name: c, hostDir: /c, storageClass: {provisioner: kubernetes.io/no-provisioner}}
`, all: true, more: `
provisioner:
  classes:
    a: {settings: {hostDir: /a}, storageClass: {create: false}}
    b: {settings: {hostDir: /b}, storageClass: {create: false}}
    c: {settings: {hostDir: /c}, storageClass: {create: true}}
    local-disks: null
  tolerations: []
`, warn: []string{
				"classes[0].storageClass.provisioner: the chart's StorageClasses have none, so the class is converted without one: keep the reference's, or create it yourself",
				"classes[1].allowedTopologies: the chart's StorageClasses have none, so the class is converted without one: keep the reference's, or create it yourself",
			},
		},
		"pods": {
			values: fast + `
image: registry.example/local-volume-provisioner:v2.7.0
imagePullPolicy: Always
imagePullSecrets: [{name: mine}]
podAnnotations: {a: b}
podLabels: {c: d}
priorityClassName: system-node-critical
nodeSelector: {disks: many}
affinity: {nodeAffinity: {}}
resources: {requests: {cpu: 10m}}
kubeConfigEnv: /etc/kubeconfig
additionalArgs: [--v=4, --stderrthreshold=INFO]
updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 3}}
`, more: `
imagePullSecrets: [{name: mine}]
provisioner:
  image: {pullPolicy: Always}
  podAnnotations: {a: b}
  podLabels: {c: d}
  priorityClassName: system-node-critical
  nodeSelector: {disks: many}
  affinity: {nodeAffinity: {}}
  resources: {requests: {cpu: 10m}}
  extraEnv: [{name: KUBECONFIG, value: /etc/kubeconfig}]
  logLevel: 4
  maxUnavailable: 3
`, warn: []string{
				"additionalArgs[1]: --stderrthreshold=INFO is a flag of the reference: remove it, or write a flag of stowage-provisioner to provisioner.extraArgs",
				"image: the provisioner has another image: remove it; if images come from a mirror, set image.registry",
			},
		},
		"further containers and volumes": {
			values: fast + `
initContainers: [{name: format, image: tools}]
additionalVolumes: [{name: signal, emptyDir: {}}]
additionalVolumeMounts: [{name: signal, mountPath: /etc/signal}]
additionalHostPathVolumes: {udev: /run/udev}
`, more: `
provisioner:
  initContainers: [{name: format, image: tools}]
  extraVolumes: [{name: udev, hostPath: {path: /run/udev}}, {name: signal, emptyDir: {}}]
  extraVolumeMounts: [{name: udev, mountPath: /run/udev}, {name: signal, mountPath: /etc/signal}]
`,
		},
		"configuration": {
			values: fast + "labelsForPV: {a: b}\nnodeLabels: [zone]\nminResyncPeriod: 7m\nuseJobForCleaning: true\ntolerations: [{operator: Exists}]\n",
			more: `
controller: {cleaningJobs: true}
provisioner:
  config: {labelsForPV: "a: b\n", nodeLabelsForPV: "- zone\n", minResyncPeriod: 7m, jobTolerations: "- operator: Exists\n"}
  tolerations: [{operator: Exists}]
`,
		},
		"the reference's startup taint": {
			values: fast + "removeNodeNotReadyTaint: true",
			more:   "provisioner: {startupTaint: {enabled: true, key: sig-storage-local-static-provisioner/agent-not-ready}, tolerations: [{key: sig-storage-local-static-provisioner/agent-not-ready, operator: Exists}]}",
		},
		"another startup taint": {
			values: fast + "removeNodeNotReadyTaint: true\nprovisionerNotReadyNodeTaintKey: mine\ntolerations: [{key: a}]",
			more:   "provisioner: {startupTaint: {enabled: true, key: mine}, tolerations: [{key: a}, {key: mine, operator: Exists}]}",
		},
		"monitors": {
			values: fast + "serviceMonitor: {enabled: true, interval: 20s, additionalLabels: {a: b}, namespace: monitoring}",
			more:   "monitoring: {enabled: true, prometheusRule: {enabled: false}, dashboard: {enabled: false}, serviceMonitor: {interval: 20s}, labels: {a: b}}",
			warn:   []string{"serviceMonitor.namespace: monitors are in the namespace of the chart: remove it; an operator that selects by namespace must select that one"},
		},
		"monitors of old versions": {
			values: fast + "prometheus: {operator: {enabled: true, serviceMonitor: {interval: 20s, selector: {a: b}}}}",
			more:   "monitoring: {enabled: true, prometheusRule: {enabled: false}, dashboard: {enabled: false}, serviceMonitor: {interval: 20s}, labels: {a: b}}",
		},
		"what is not enabled": {values: fast + "serviceMonitor: {enabled: false, namespace: a}\nnodeCleanupController: {enabled: false, workerThreads: 3, storageClassNames: [fast]}"},
		"node cleanup": {
			values: fast + "nodeCleanupController: {enabled: true, storageClassNames: [fast, other], pvcDeletionDelay: 2m, priorityClassName: high, workerThreads: 20}",
			more: `
controller: {priorityClassName: high}
provisioner: {classes: {fast: {storageClass: {annotations: {stowage.dev/node-loss: Release, stowage.dev/node-loss-delay: 2m}}}}}
`, warn: []string{
				"nodeCleanupController.workerThreads: " + otherController,
				"nodeCleanupController.storageClassNames[1]: the chart does not make StorageClass other: annotate it with stowage.dev/node-loss=Release and stowage.dev/node-loss-delay=2m",
			},
		},
		"versions before 2.0": {
			values: fast + "common: {useNodeNameOnly: true, labelsForPV: {a: b}, namespace: kube-system, rbac: false}\ndaemonset: {name: x, serviceAccount: y, nodeSelector: {disks: many}}",
			more:   `provisioner: {config: {labelsForPV: "a: b\n"}, nodeSelector: {disks: many}}`,
			warn: []string{
				"daemonset.name: " + fixedName, "common.namespace: " + helmsOwn, "common.rbac: " + ownAccount, "daemonset.serviceAccount: " + ownAccount,
				"common.useNodeNameOnly: volumes always name their node by its name alone: remove it; to go back, use --use-node-name-only of kubectl stowage release",
			},
		},
		"the reference's defaults": {values: fast + `
nameOverride: ""
rbac: {create: true, extraRules: []}
serviceAccount: {create: true, name: ""}
setPVOwnerRef: false
mountDevVolume: true
privileged: true
nodeSelectorWindows: {}
livenessProbe: {tcpSocket: {port: metrics}, initialDelaySeconds: 10, periodSeconds: 60, timeoutSeconds: 5, failureThreshold: 3}
provisionerNotReadyNodeTaintKey: sig-storage-local-static-provisioner/agent-not-ready
minResyncPeriod: null
common:
`},
		"what the provisioner warns of": {
			values: "classes: [{name: raw, hostDir: /raw, volumeMode: Block, blockCleanerCommand: [/scripts/quick_reset.sh]}]", all: true,
			more: "provisioner: {classes: {raw: {settings: {hostDir: /raw, volumeMode: Block, blockCleanerCommand: [/scripts/quick_reset.sh]}, storageClass: {create: false}}, local-disks: null}, tolerations: []}",
			warn: []string{"classes[0].blockCleanerCommand: after fs-reset, old bytes may be readable by the next claim of a Block volume: the default, zero, makes the device read as zeros"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reference := decode(t, test.values)
			if test.values == "" {
				reference = decode(t, fast)
			}
			before := runtime.DeepCopyJSON(reference)
			result, err := Convert(reference)
			if err != nil {
				t.Fatal(err)
			}
			want := decode(t, fastWant)
			if test.all {
				want = decode(t, test.more)
			} else {
				merge(want, decode(t, test.more))
			}
			if diff := cmp.Diff(want, result.Values); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warn, result.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, reference); diff != "" {
				t.Errorf("changed its argument:\n%s", diff)
			}
		})
	}
}

// merge adds values to an object, as Helm does.
func merge(to, from map[string]any) {
	for name, value := range from {
		inner, isObject := value.(map[string]any)
		outer, wasObject := to[name].(map[string]any)
		if isObject && wasObject {
			merge(outer, inner)
			continue
		}
		to[name] = value
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	const unknown = "Forbidden: unknown value: the chart of sig-storage-local-static-provisioner has none of this name: correct or remove it"
	for name, test := range map[string]struct {
		values string
		want   []string
	}{
		"unknown values, wherever they are": {
			values: fast + "  colour: red\nimages: a\ncommon: {b: 1}\nserviceMonitor: {enabled: false, c: 1}\nupdateStrategy: {rollingUpdate: {d: 1}}",
			want: []string{
				"common.b: " + unknown, "classes[0].colour: " + unknown, "images: " + unknown, "serviceMonitor.c: " + unknown, "updateStrategy.rollingUpdate.d: " + unknown,
			},
		},
		"other types": {
			values: "classes: [a, {name: fast, storageClass: 3}]\ntolerations: {}\npodLabels: []\nprivileged: \"no\"\nminResyncPeriod: 5\ndaemonset: a\nnodeCleanupController: {enabled: true, replicas: \"2\"}\nadditionalHostPathVolumes: {a: 1}",
			want: []string{
				"daemonset: Invalid value: must be an object", "additionalHostPathVolumes.a: Invalid value: must be a string", "classes[0]: Invalid value: must be an object",
				"classes[1].storageClass: Invalid value: must be true, false or an object", "minResyncPeriod: Invalid value: must be a string",
				"nodeCleanupController.replicas: Invalid value: must be a number", "podLabels: Invalid value: must be an object",
				"privileged: Invalid value: must be true or false", "tolerations: Invalid value: must be a list",
			},
		},
		"classes without a name, and with that of another": {
			values: fast + "- {hostDir: /a}\n- {name: fast, hostDir: /b}",
			want:   []string{"classes[1].name: Required value: must be the name of a StorageClass", `classes[2].name: Duplicate value: "fast"`},
		},
		"a value in the forms of two versions": {
			values: fast + "useNodeNameOnly: true\ncommon: {useNodeNameOnly: false}",
			want:   []string{"useNodeNameOnly: Forbidden: must not be set beside common.useNodeNameOnly: remove one of them"},
		},
		"a delay out of range": {
			values: fast + "nodeCleanupController: {enabled: true, storageClassNames: [fast], pvcDeletionDelay: 1ms}",
			want:   []string{`nodeCleanupController.pvcDeletionDelay: Invalid value: "1ms": must be a duration of 1s to 8760h0m0s`},
		},
		"what the provisioner rejects, by the reference's names": {
			values: "classes: [{name: fast, hostDir: relative, fsType: ntfs}]\nnodeLabels: [stowage.dev/disk]",
			want: []string{
				"nodeLabels[0]: Forbidden: labels that begin with stowage.dev/ are reserved for the provisioner: choose another key than stowage.dev/disk", `classes[0].fsType: Unsupported value: "ntfs": supported values: "btrfs", "ext2", "ext3", "ext4", "xfs"`, `classes[0].hostDir: Invalid value: "relative": must be an absolute path`,
			},
		},
		"no classes": {values: "classes: []", want: []string{"classes: Required value: must have at least one storage class: without one, the provisioner finds no disk"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Convert(decode(t, test.values))
			if err == nil {
				t.Fatal("no error")
			}
			var got []string
			for _, err := range err.(utilerrors.Aggregate).Errors() { //nolint:errorlint // Convert returns it itself
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// samples are a value of each type that has an effect.
var samples = map[kind]any{
	"": "sample", object: map[string]any{"sample": "value"}, list: []any{"sample"}, text: "sample", number: int64(7),
}

// TestNothingIsDropped: each value that the rules know changes the result, is in a warning, or in an error.
func TestNothingIsDropped(t *testing.T) {
	t.Parallel()
	const base = `
classes: [{name: fast, hostDir: /mnt/fast, storageClass: {reclaimPolicy: Retain}}]
removeNodeNotReadyTaint: true
useJobForCleaning: true
serviceMonitor: {enabled: true}
prometheus: {operator: {enabled: true, serviceMonitor: {}}}
nodeCleanupController: {enabled: true, storageClassNames: [fast]}
`
	before, err := Convert(decode(t, base))
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, change func(values, class map[string]any)) {
		t.Run(name, func(t *testing.T) {
			values := decode(t, base)
			change(values, values["classes"].([]any)[0].(map[string]any))
			after, err := Convert(values)
			if err == nil && cmp.Equal(before, after) {
				t.Error("it has no effect")
			}
		})
	}
	var walk func(prefix string, rules map[string]rule, set func(values, class map[string]any) map[string]any)
	walk = func(prefix string, rules map[string]rule, set func(values, class map[string]any) map[string]any) {
		for name, r := range rules {
			sample, ok := samples[r.kind]
			if !ok {
				sample = r.same != true
			}
			if r.fields != nil {
				walk(prefix+name+".", r.fields, func(values, class map[string]any) map[string]any {
					outer := set(values, class)
					if _, ok := outer[name].(map[string]any); !ok {
						outer[name] = map[string]any{}
					}
					return outer[name].(map[string]any)
				})
			} else if !strings.Contains(name, "VALUES") && name != "enabled" {
				check(prefix+name, func(values, class map[string]any) {
					in := set(values, class)
					if in[name] == true {
						sample = false
					}
					in[name] = sample
				})
			}
		}
	}
	walk("", topRules, func(values, _ map[string]any) map[string]any { return values })
	walk("classes[0].", classRules, func(_, class map[string]any) map[string]any { return class })
}
