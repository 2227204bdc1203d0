// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helperpod makes the pods that run the steps of PaV volumes, from templates, and reads
// their outcome. A helper pod has the reporter as its first init container, a native sidecar, and
// the directory /pav in every container.
package helperpod

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/pav/report"
)

// Step is what a helper pod does.
type Step string

// The steps that have a pod template.
const (
	Validation Step = "validation"
	Creation   Step = "creation"
	Deletion   Step = "deletion"
	Staging    Step = "staging"
	Unstaging  Step = "unstaging"
)

// runs reports whether the pod may run for as long as the volume is used. Other pods must end.
func (s Step) runs() bool { return s == Staging }

// template is the path of the step's template in a PavProvisioner.
func (s Step) template() *field.Path {
	return field.NewPath("spec", "volume"+strings.ToUpper(string(s[:1]))+string(s[1:]), "podTemplate")
}

const (
	// ReporterName is the name of the reporter's container.
	ReporterName = "stowage-pav-reporter"
	// volumeName is the name of the volume that is mounted at directory.
	volumeName = "pav"
	directory  = "/pav"
	reporter   = "/usr/local/bin/stowage-pav-reporter"
	// nonroot is the user of the reporter's image.
	nonroot = 65532
)

// Config describes one helper pod.
type Config struct {
	Step Step
	// Owner is the PavVolume or PavStaging whose step it is. The names of pods contain its UID.
	Owner metav1.OwnerReference
	// Provisioner is the name of the PavProvisioner.
	Provisioner string
	// Attempt counts the pods of this step and owner, from 1.
	Attempt int64
	// Image is the reporter's.
	Image string
	// Namespace is that of pods whose template names none. Namespaces are the others that a
	// template may name.
	Namespace  string
	Namespaces []string
	// Node is the name of the only node that the pod may run on; empty: any node. The pod is
	// scheduled, so that its own claims can be bound there.
	Node string
	// Volume is what the step makes available; nil unless the step is Staging.
	Volume *Volume
}

// Volume is what a staging pod makes available at /pav/volume.
type Volume struct {
	// HostPath is the directory of the node that is mounted at /pav.
	HostPath string
	Mode     corev1.PersistentVolumeMode
	// Bytes are the least size of a block device.
	Bytes int64
}

// Name returns the name of the pod of an owner's step. No other step, owner or attempt has it, and
// it is a DNS label, as the pod's hostname must be.
func Name(step Step, owner types.UID, attempt int64) string {
	return fmt.Sprintf("pav-%s-%s-%d", step, owner, attempt)
}

// Build returns the pod of a step from a template, or why the template is refused, by field. The
// pod is valid if template is that of a valid pod; the API server validates the rest. The
// template's own name is ignored, as it has no meaning. template is not changed.
func Build(template *corev1.PodTemplateSpec, c Config) (*corev1.Pod, field.ErrorList) {
	if errs := validate(template, c); len(errs) > 0 {
		return nil, errs
	}
	t := template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            Name(c.Step, c.Owner.UID, c.Attempt),
			Namespace:       namespaceOf(t, c),
			Labels:          Labels(c.Step, c.Owner.UID),
			Annotations:     t.Annotations,
			Finalizers:      []string{wellknown.PavPodFinalizer},
			OwnerReferences: []metav1.OwnerReference{c.Owner},
		},
		Spec: t.Spec,
	}
	pod.Labels[wellknown.PavProvisionerLabel] = c.Provisioner
	maps.Copy(pod.Labels, t.Labels)
	if pod.Spec.RestartPolicy == "" {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	addDirectory(&pod.Spec, c)
	pod.Spec.InitContainers = slices.Insert(pod.Spec.InitContainers, 0, reporterContainer(&pod.Spec, c))
	if c.Node != "" {
		requireNode(&pod.Spec, c.Node)
	}
	return pod, nil
}

// Labels select the pods of an owner's step.
func Labels(step Step, owner types.UID) map[string]string {
	return map[string]string{wellknown.PavStepLabel: string(step), wellknown.PavOwnerLabel: string(owner)}
}

func namespaceOf(t *corev1.PodTemplateSpec, c Config) string {
	if t.Namespace != "" {
		return t.Namespace
	}
	return c.Namespace
}

// addDirectory mounts /pav into all containers. What privileged containers of a staging pod mount
// there reaches the node and the other containers.
func addDirectory(spec *corev1.PodSpec, c Config) {
	volume := corev1.Volume{Name: volumeName, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	if c.Volume != nil {
		volume.VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: c.Volume.HostPath, Type: new(corev1.HostPathDirectoryOrCreate),
		}}
	}
	spec.Volumes = append(spec.Volumes, volume)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			container := &containers[i]
			mount := directoryMount(c)
			if s := container.SecurityContext; c.Volume != nil && s != nil && s.Privileged != nil && *s.Privileged {
				mount.MountPropagation = new(corev1.MountPropagationBidirectional)
			}
			container.VolumeMounts = append(container.VolumeMounts, mount)
		}
	}
}

func directoryMount(c Config) corev1.VolumeMount {
	mount := corev1.VolumeMount{Name: volumeName, MountPath: directory}
	if c.Volume != nil {
		mount.MountPropagation = new(corev1.MountPropagationHostToContainer)
	}
	return mount
}

// reporterContainer is the native sidecar. The other containers start when it waits for their end:
// when its hook returns, which is sooner than after a startup probe. Kubelet terminates it after all
// others, since it is the first.
func reporterContainer(spec *corev1.PodSpec, c Config) corev1.Container {
	mount := directoryMount(c)
	mount.ReadOnly = true
	container := corev1.Container{
		Name: ReporterName, Image: c.Image,
		Command:       []string{reporter, "run", "-limit=" + strconv.Itoa(report.Limit(containersOf(spec)))},
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{
			Exec: &corev1.ExecAction{Command: []string{reporter, "started"}},
		}},
		Resources:                reporterResources(spec),
		VolumeMounts:             []corev1.VolumeMount{mount},
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext:          reporterSecurity(spec, c.Step),
	}
	if c.Volume != nil {
		container.ReadinessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{
				reporter, "ready", "-volume-mode=" + string(c.Volume.Mode), "-min-bytes=" + strconv.FormatInt(c.Volume.Bytes, 10),
			}}},
			PeriodSeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 1,
		}
	}
	return container
}

// containersOf counts the containers of a helper pod, the reporter included.
func containersOf(spec *corev1.PodSpec) int {
	return 1 + len(spec.InitContainers) + len(spec.Containers)
}

// reporterResources are small. Requests equal limits in a pod that is Guaranteed without the reporter,
// so that it stays one. Under a limit of 20m, pods took 4.0 s in the median rather than 3.0 s, most of
// it to start the reporter. A pod that has resources of its own includes the reporter in them: what
// the reporter requests besides could exceed them.
func reporterResources(spec *corev1.PodSpec) corev1.ResourceRequirements {
	if spec.Resources != nil {
		return corev1.ResourceRequirements{}
	}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	requests := limits.DeepCopy()
	if !guaranteed(spec) {
		requests[corev1.ResourceCPU] = resource.MustParse("20m")
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

// guaranteed reports whether a pod without resources of its own has the class Guaranteed. The API
// server sets requests that are missing to the limits.
func guaranteed(spec *corev1.PodSpec) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, c := range containers {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				limit := c.Resources.Limits[name]
				request, set := c.Resources.Requests[name]
				if limit.IsZero() || set && !request.IsZero() && request.Cmp(limit) != 0 {
					return false
				}
			}
		}
	}
	return true
}

// reporterSecurity fulfills the Pod Security Standard "restricted", unless the pod itself chooses
// root. In staging pods, whose hostPath needs more rights anyway, the reporter is root without
// capabilities: a FUSE file system may be visible to its own user only.
func reporterSecurity(spec *corev1.PodSpec, step Step) *corev1.SecurityContext {
	s := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	switch p := spec.SecurityContext; {
	case step == Staging:
		s.RunAsUser, s.RunAsNonRoot = new(int64(0)), new(false)
	case p != nil && p.RunAsUser != nil: // the reporter can read the files of that user
		s.RunAsNonRoot = new(*p.RunAsUser != 0)
	default:
		s.RunAsUser, s.RunAsNonRoot = new(int64(nonroot)), new(true)
	}
	return s
}

// requireNode adds the node to every term of the pod's required node affinity. Terms without
// conditions match no node and stay as they are.
func requireNode(spec *corev1.PodSpec, node string) {
	only := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := spec.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{only}}},
		}
		return
	}
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		if len(terms[i].MatchExpressions)+len(terms[i].MatchFields) > 0 {
			terms[i].MatchFields = append(terms[i].MatchFields, only)
		}
	}
}
