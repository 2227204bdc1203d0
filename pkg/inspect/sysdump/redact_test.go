// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package sysdump

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

var redactor = Redactor{
	Own:        func(image string) bool { return strings.HasPrefix(image, "own") },
	ConfigMaps: []snapshot.Name{{Namespace: "stowage-system", Name: "own"}},
}

// In these objects, all values that must not be written begin with secret, and some others with keep.

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: "keep-namespace", Labels: map[string]string{"keep-label": "keep-value"},
		Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: "secret-applied", "example.com/keep-key": "secret-annotation", "notkubernetes.io/a": "secret-other",
			"stowage.dev/node-loss": "keep-own", "pv.kubernetes.io/provisioned-by": "keep-kubernetes",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "secret-manager"}},
	}
}

func podSpec() corev1.PodSpec {
	env := []corev1.EnvVar{
		{Name: "KEEP-name", Value: "secret-env"},
		{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "keep-reference"}}}},
	}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"secret-probe"}}}}
	hook := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"secret-hook"}}}}
	of := func(name, image, args string) corev1.Container {
		return corev1.Container{Name: name, Image: image, Env: env, Command: []string{args}, Args: []string{args}}
	}
	other := of("keep-main", "other", "secret-arg")
	other.LivenessProbe, other.ReadinessProbe, other.StartupProbe, other.Lifecycle = probe, probe, probe, hook
	return corev1.PodSpec{
		InitContainers: []corev1.Container{of("keep-init", "other", "secret-init")},
		Containers:     []corev1.Container{other, of("keep-own", "own", "keep-arg")},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "keep-ephemeral", Env: env, Args: []string{"secret-ephemeral"},
		}}},
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "keep-driver", VolumeAttributes: map[string]string{"keep-attribute": "secret-attribute"}}}},
			{VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Options: map[string]string{"a": "secret-option"}}}},
		},
	}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: meta("keep-template"), Spec: podSpec()}
}

func terminated(image, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Image: image, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}}
}

var found = regexp.MustCompile(`secret-[a-z]+`)

// TestRedact: no secret is in what is written of any kind, and the rest is.
func TestRedact(t *testing.T) {
	t.Parallel()
	raw := runtime.RawExtension{Raw: []byte(`{"a": "secret-raw"}`)}
	step := []byte(`{"podTemplate": "secret-template"}`)
	for name, test := range map[string]struct {
		object snapshot.Object
		keeps  []string
	}{
		"pod": {
			&corev1.Pod{ObjectMeta: meta("pod"), Spec: podSpec(), Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{terminated("other", "secret-message"), terminated("own", "keep-message")}}},
			[]string{"keep-namespace", "keep-label", "keep-key", "keep-own", "keep-kubernetes", "keep-main", "keep-init", "keep-ephemeral", "keep-reference", "KEEP-name", "keep-driver", "keep-attribute", "keep-arg", "keep-message"},
		},
		"replication controller": {&corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: new(template())}}, []string{"keep-main"}},
		"replica set":            {&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: template()}}, []string{"keep-main"}},
		"stateful set": {
			&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template(), VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: meta("keep-claim")}}}},
			[]string{"keep-main", "keep-claim"},
		},
		"deployment": {&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template()}}, []string{"keep-main"}},
		"daemon set": {&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: template()}}, []string{"keep-main"}},
		"job":        {&batchv1.Job{Spec: batchv1.JobSpec{Template: template()}}, []string{"keep-main"}},
		"volume": {
			&corev1.PersistentVolume{ObjectMeta: meta("pv"), Spec: corev1.PersistentVolumeSpec{
				MountOptions:           []string{"keep-option", "password=secret-password"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{VolumeHandle: "keep-handle", VolumeAttributes: map[string]string{"keep-attribute": "secret-attribute"}}},
			}},
			[]string{"keep-option", "keep-handle", "keep-attribute", "keep-own"},
		},
		"class": {
			&storagev1.StorageClass{ObjectMeta: meta("class"), Provisioner: "keep-provisioner", Parameters: map[string]string{"keep-parameter": "secret-parameter"}, MountOptions: []string{"pass=secret-pass"}},
			[]string{"keep-provisioner", "keep-parameter"},
		},
		"attachment": {&storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{AttachmentMetadata: map[string]string{"a": "secret-metadata"}}}, nil},
		"resource claim": {
			&resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Config: []resourcev1.DeviceClaimConfiguration{{
				DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: "keep-driver", Parameters: raw}},
			}}}}},
			[]string{"keep-driver"},
		},
		"PavProvisioner": {
			&stowage.PavProvisioner{ObjectMeta: meta("pav"), Spec: stowage.PavProvisionerSpec{
				VolumeValidation: &stowage.VolumeValidation{Raw: step}, VolumeCreation: &stowage.VolumeCreation{Raw: step}, VolumeDeletion: &stowage.VolumeCleanup{Raw: step},
				VolumeStaging: stowage.VolumeStaging{Raw: step}, VolumeUnstaging: &stowage.VolumeCleanup{Raw: step}, DeviceAllowList: []string{"keep-device"},
			}},
			[]string{"keep-device", "volumeCreation"},
		},
		"PavVolume": {
			&stowage.PavVolume{Spec: stowage.PavVolumeSpec{Provisioner: "keep-provisioner", Claim: raw, Class: raw}, Status: stowage.PavVolumeStatus{Step: &stowage.PavVolumeStep{Result: &stowage.PavStepResult{Message: "secret-message"}}}},
			[]string{"keep-provisioner"},
		},
		"PavStaging": {&stowage.PavStaging{Spec: stowage.PavStagingSpec{Handle: "keep-handle"}, Status: stowage.PavStagingStatus{Claim: raw, Volume: raw, Node: raw}}, []string{"keep-handle"}},
		"own ConfigMap": {
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stowage-system", Name: "own"}, Data: map[string]string{"a": "keep-data"}},
			[]string{"keep-data"},
		},
		"event":          {&corev1.Event{Reason: "FailedScheduling", Message: "keep-message"}, []string{"keep-message"}},
		"event of probe": {&corev1.Event{Reason: "Unhealthy", Message: "secret-output"}, []string{"Unhealthy"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !redactor.Redact(test.object) {
				t.Fatal("is left out")
			}
			text, err := json.Marshal(test.object)
			if err != nil {
				t.Fatal(err)
			}
			if secrets := found.FindAllString(string(text), -1); len(secrets) > 0 {
				t.Errorf("has %q: %s", secrets, text)
			}
			for _, want := range test.keeps {
				if !strings.Contains(string(text), want) {
					t.Errorf("lacks %s: %s", want, text)
				}
			}
		})
	}
}

// TestLeaveOut: whole objects of others that can have anything.
func TestLeaveOut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		object snapshot.Object
		want   bool
	}{
		"a ConfigMap of others":                    {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "own"}}, false},
		"a ConfigMap of Stowage":                   {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stowage-system", Name: "own"}}, true},
		"a policy of others":                       {&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, false},
		"a policy of Stowage":                      {&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "stowage-pav-pods"}}, true},
		"a binding of a mutating policy of others": {&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, false},
	} {
		if got := redactor.Redact(test.object); got != test.want {
			t.Errorf("%s: written is %v, want %v", name, got, test.want)
		}
	}
}

// TestTail: the last lines of a log are kept, with a line about those that are not.
func TestTail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789\n", 20000) + "end\n"
	for name, test := range map[string]struct {
		text  string
		limit int64
		want  string
	}{
		"all":                    {"a\nb\n", 10, "a\nb\n"},
		"as much as the limit":   {"a\nb\n", 4, "a\nb\n"},
		"the last line":          {"aaaa\nbb\n", 5, "(5 bytes before this are not in the dump)\nbb\n"},
		"a line without its end": {"aaaa\nbbbbbb", 4, "(7 bytes before this are not in the dump)\nbbbb"},
		"many":                   {long, 15, "(220000 bytes before this are not in the dump)\nend\n"},
		"nothing":                {"", 4, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tail(strings.NewReader(test.text), test.limit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMetricsPort: where each part of the manifests has its metrics.
func TestMetricsPort(t *testing.T) {
	t.Parallel()
	ports := func(names ...string) (c corev1.Container) {
		for i, name := range names {
			c.Ports = append(c.Ports, corev1.ContainerPort{Name: name, ContainerPort: int32(i + 1)})
		}
		return c
	}
	secure := ports("http")
	secure.Args = []string{"--v=2", "--secure-metrics"}
	for name, test := range map[string]struct {
		container corev1.Container
		want      []string
	}{
		"provisioner":             {ports("http"), []string{"http", "1"}},
		"provisioner, over TLS":   {secure, []string{"https", "1"}},
		"extender":                {ports("https", "health"), []string{"http", "2"}},
		"scheduler":               {ports("https"), []string{"https", "1"}},
		"a container without any": {ports("grpc"), []string{"", ""}},
	} {
		scheme, port := metricsPort(&test.container)
		if got := []string{scheme, port}; !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
