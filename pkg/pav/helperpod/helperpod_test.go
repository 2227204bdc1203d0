// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package helperpod

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	core "k8s.io/kubernetes/pkg/apis/core"
	corev1api "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
	"sigs.k8s.io/yaml"
)

// TestMain lets pods be privileged, as API servers of clusters with volumes do.
func TestMain(m *testing.M) {
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	os.Exit(m.Run())
}

const uid = "0d7b21b8-56b5-4c1e-9b0a-1c7e2b8f0a11"

// config is that of a creation pod.
func config() Config {
	return Config{
		Step: Creation, Provisioner: "btrfs", Attempt: 2, Image: "stowage.dev/stowage-pav-reporter:dev", Namespace: "stowage-pav",
		Owner: metav1.OwnerReference{APIVersion: "stowage.dev/v1alpha1", Kind: "PavVolume", Name: "pvc-1", UID: uid, Controller: new(true)},
	}
}

func stagingConfig() Config {
	c := config()
	c.Step, c.Node = Staging, "node-1"
	c.Volume = &Volume{HostPath: "/var/lib/stowage/pav/v/b/1/pav", Mode: corev1.PersistentVolumeBlock, Bytes: 4096}
	return c
}

// template parses a template.
func template(t *testing.T, text string) *corev1.PodTemplateSpec {
	t.Helper()
	var out corev1.PodTemplateSpec
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

const plain = `
metadata:
  name: ignored
  labels: {app: x}
  annotations: {a: b}
spec:
  containers:
  - {name: main, image: busybox, securityContext: {privileged: true}}
`

// build makes a pod, and checks that template stays as it was.
func build(t *testing.T, template *corev1.PodTemplateSpec, c Config) *corev1.Pod {
	t.Helper()
	before := template.DeepCopy()
	pod, errs := Build(template, c)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	if diff := cmp.Diff(before, template); diff != "" {
		t.Errorf("the template was changed (-before +after):\n%s", diff)
	}
	return pod
}

func TestBuildWhole(t *testing.T) {
	t.Parallel()
	got, err := yaml.Marshal(build(t, template(t, plain), config()))
	if err != nil {
		t.Fatal(err)
	}
	want := `metadata:
  annotations:
    a: b
  finalizers:
  - stowage.dev/pav-pod
  labels:
    app: x
    stowage.dev/pav-owner: ` + uid + `
    stowage.dev/pav-provisioner: btrfs
    stowage.dev/pav-step: creation
  name: pav-creation-` + uid + `-2
  namespace: stowage-pav
  ownerReferences:
  - apiVersion: stowage.dev/v1alpha1
    controller: true
    kind: PavVolume
    name: pvc-1
    uid: ` + uid + `
spec:
  containers:
  - image: busybox
    name: main
    resources: {}
    securityContext:
      privileged: true
    volumeMounts:
    - mountPath: /pav
      name: pav
  initContainers:
  - command:
    - /usr/local/bin/stowage-pav-reporter
    - run
    - -limit=4096
    image: stowage.dev/stowage-pav-reporter:dev
    lifecycle:
      postStart:
        exec:
          command:
          - /usr/local/bin/stowage-pav-reporter
          - started
    name: stowage-pav-reporter
    resources:
      limits:
        cpu: 100m
        memory: 32Mi
      requests:
        cpu: 20m
        memory: 32Mi
    restartPolicy: Always
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        drop:
        - ALL
      readOnlyRootFilesystem: true
      runAsNonRoot: true
      runAsUser: 65532
      seccompProfile:
        type: RuntimeDefault
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    volumeMounts:
    - mountPath: /pav
      name: pav
      readOnly: true
  restartPolicy: Never
  volumes:
  - emptyDir: {}
    name: pav
status: {}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBuild: what the reporter and the pod have depends on step and template.
func TestBuild(t *testing.T) {
	t.Parallel()
	staged := func(propagation string) string {
		return "[{name: pav, mountPath: /pav, mountPropagation: " + propagation + "}]"
	}
	for name, test := range map[string]struct {
		template string
		config   func(*Config)
		staging  bool
		part     func(*corev1.Pod) any
		want     string // YAML
	}{
		"a namespace that is allowed": {
			template: "{metadata: {namespace: team}, " + strings.TrimSpace(`spec: {containers: [{name: main, image: i}]}}`),
			config:   func(c *Config) { c.Namespaces = []string{"other", "team"} },
			part:     func(p *corev1.Pod) any { return p.Namespace }, want: "team",
		},
		"OnFailure is kept": {
			template: "spec: {restartPolicy: OnFailure, containers: [{name: main, image: i}]}",
			part:     func(p *corev1.Pod) any { return p.Spec.RestartPolicy }, want: "OnFailure",
		},
		"a staging pod may restart": {
			template: "spec: {restartPolicy: Always, containers: [{name: main, image: i}]}", staging: true,
			part: func(p *corev1.Pod) any { return p.Spec.RestartPolicy }, want: "Always",
		},
		"init containers have the directory, after the reporter": {
			template: "spec: {initContainers: [{name: first, image: i}], containers: [{name: main, image: i}]}",
			part: func(p *corev1.Pod) any {
				return []any{p.Spec.InitContainers[0].Name, p.Spec.InitContainers[1].Name, p.Spec.InitContainers[1].VolumeMounts}
			},
			want: "[stowage-pav-reporter, first, [{name: pav, mountPath: /pav}]]",
		},
		"a smaller report with many containers": {
			template: "spec: {containers: [{name: a, image: i}, {name: b, image: i}, {name: c, image: i}]}",
			part:     func(p *corev1.Pod) any { return p.Spec.InitContainers[0].Command[2] }, want: "-limit=3072",
		},
		"resources of the pod include the reporter": {
			template: "spec: {resources: {requests: {cpu: 1m}}, containers: [{name: main, image: i}]}",
			part:     func(p *corev1.Pod) any { return p.Spec.InitContainers[0].Resources }, want: "{}",
		},
		"the user of the pod": {
			template: "spec: {securityContext: {runAsUser: 1000}, containers: [{name: main, image: i}]}",
			part:     user, want: "[null, true]",
		},
		"root by the pod": {
			template: "spec: {securityContext: {runAsUser: 0}, containers: [{name: main, image: i}]}",
			part:     user, want: "[null, false]",
		},
		"root in a staging pod": {template: plain, staging: true, part: user, want: "[0, false]"},
		"the directory of a staging pod": {
			template: plain, staging: true,
			part: func(p *corev1.Pod) any { return p.Spec.Volumes },
			want: "[{name: pav, hostPath: {path: /var/lib/stowage/pav/v/b/1/pav, type: DirectoryOrCreate}}]",
		},
		"mounts of privileged containers reach the node": {
			template: plain, staging: true,
			part: func(p *corev1.Pod) any { return p.Spec.Containers[0].VolumeMounts }, want: staged("Bidirectional"),
		},
		"mounts of others do not": {
			template: "spec: {containers: [{name: main, image: i, securityContext: {privileged: false}}]}", staging: true,
			part: func(p *corev1.Pod) any { return p.Spec.Containers[0].VolumeMounts }, want: staged("HostToContainer"),
		},
		"the readiness probe of a staging pod": {
			template: plain, staging: true,
			part: func(p *corev1.Pod) any { return p.Spec.InitContainers[0].ReadinessProbe },
			want: "{exec: {command: [/usr/local/bin/stowage-pav-reporter, ready, -volume-mode=Block, -min-bytes=4096]}, periodSeconds: 1, timeoutSeconds: 5, successThreshold: 1, failureThreshold: 1}",
		},
		"the node": {
			template: plain, staging: true,
			part: func(p *corev1.Pod) any { return p.Spec.Affinity },
			want: "nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}]}}",
		},
		"the node in each term but those that match nothing": {
			template: `
spec:
  containers: [{name: main, image: i}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - {matchExpressions: [{key: k, operator: Exists}]}
        - {}
        - {matchFields: [{key: metadata.name, operator: NotIn, values: [node-2]}]}
`,
			staging: true,
			part: func(p *corev1.Pod) any {
				return p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			},
			want: `
- {matchExpressions: [{key: k, operator: Exists}], matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}
- {}
- {matchFields: [{key: metadata.name, operator: NotIn, values: [node-2]}, {key: metadata.name, operator: In, values: [node-1]}]}
`,
		},
		"any node": {template: plain, part: func(p *corev1.Pod) any { return p.Spec.Affinity }, want: "null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config()
			if test.staging {
				c = stagingConfig()
			}
			if test.config != nil {
				test.config(&c)
			}
			pod := build(t, template(t, test.template), c)
			if diff := cmp.Diff(generic(t, []byte(test.want)), generic(t, marshal(t, test.part(pod)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, err := range invalid(t, pod) {
				t.Errorf("the API server refuses the pod: %v", err)
			}
		})
	}
}

// user is that of the reporter.
func user(p *corev1.Pod) any {
	s := p.Spec.InitContainers[0].SecurityContext
	return []any{s.RunAsUser, s.RunAsNonRoot}
}

func marshal(t *testing.T, value any) []byte {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func generic(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// invalid returns why the API server refuses a new pod.
func invalid(t *testing.T, pod *corev1.Pod) field.ErrorList {
	t.Helper()
	defaulted, internal := pod.DeepCopy(), &core.Pod{}
	corev1api.SetObjectDefaults_Pod(defaulted)
	if err := corev1api.Convert_v1_Pod_To_core_Pod(defaulted, internal, nil); err != nil {
		t.Fatal(err)
	}
	return validation.ValidatePodCreate(internal, podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil))
}

// TestInvalid: the API server's validation, as the tests run it, refuses pods.
func TestInvalid(t *testing.T) {
	t.Parallel()
	pod := build(t, template(t, plain), config())
	pod.Spec.Containers[0].VolumeMounts[0].Name = "missing"
	if len(invalid(t, pod)) == 0 {
		t.Error("a pod whose volume is missing is valid")
	}
}

// TestGuaranteed: the reporter leaves the class of a pod as it is, and requests less in others.
func TestGuaranteed(t *testing.T) {
	t.Parallel()
	const limits = "limits: {cpu: 1, memory: 1Gi}"
	for resources, want := range map[string]string{
		limits:                                  "100m",
		limits + ", requests: {cpu: 1}":         "100m",
		limits + ", requests: {cpu: 1m}":        "20m",
		limits + ", requests: {memory: 1Mi}":    "20m",
		"limits: {cpu: 1}":                      "20m",
		"requests: {cpu: 1, memory: 1Gi}":       "20m",
		"limits: {cpu: 1, memory: 1Gi, foo: 1}": "100m",
	} {
		pod := build(t, template(t, "spec: {containers: [{name: main, image: i, resources: {"+resources+"}}]}"), config())
		r := pod.Spec.InitContainers[0].Resources
		if got := r.Requests.Cpu().String(); got != want || r.Limits.Cpu().String() != "100m" || !r.Requests.Memory().Equal(*r.Limits.Memory()) {
			t.Errorf("%s: the reporter requests %s, want %s (limits %v)", resources, got, want, r.Limits)
		}
	}
	twice := build(t, template(t, "spec: {containers: [{name: main, image: i, resources: {"+limits+"}}, {name: more, image: i}]}"), config())
	if got := twice.Spec.InitContainers[0].Resources.Requests.Cpu().String(); got != "20m" {
		t.Errorf("one of two containers without limits: the reporter requests %s", got)
	}
}

// TestName: names are DNS labels, also the longest.
func TestName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, step := range []Step{Validation, Creation, Deletion, Staging, Unstaging} {
		name := Name(step, uid, math.MaxInt32)
		if len(name) > 63 || seen[name] {
			t.Errorf("name %s has %d bytes, or is that of another step", name, len(name))
		}
		seen[name] = true
	}
}
