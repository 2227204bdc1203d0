// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// The parts.
const (
	schedulerPart   = "scheduler"
	extenderPart    = "extender"
	provisionerPart = "provisioner"
	controllerPart  = "controller"
	csiPart         = "csi"
)

// part is a component that can be installed by itself.
type part struct {
	name      string
	namespace string // where manifests install it
	folder    string // of the manifests
	page      string // of docs
	// leads: one replica holds a Lease, unless its configuration disables that.
	leads bool
}

// app is the name of its image, and the value of the label app.kubernetes.io/name.
func (p *part) app() string { return prefix + p.name }

// apply is what to do to install it, or to restore what was changed.
func (p *part) apply() string {
	return "apply manifests/" + p.folder + ", or with Helm run helm upgrade"
}

const prefix = "stowage-"

// staticPod is the kind of a workload of pods that kubelet runs from files.
const staticPod = "Pod"

// Namespaces of the manifests: that of provisioners, controller and node services, and that of helper pods. The chart
// installs all parts into one namespace, with any name.
const (
	namespaceOwn = "stowage-system"
	namespacePav = "stowage-pav"
)

// parts are in the order of the answer.
var parts = []part{
	{name: schedulerPart, namespace: metav1.NamespaceSystem, folder: "scheduler/second", page: "scheduler", leads: true},
	{name: extenderPart, namespace: metav1.NamespaceSystem, folder: "extender", page: "extender", leads: true},
	{name: provisionerPart, namespace: namespaceOwn, folder: "provisioner", page: "provisioner"},
	{name: controllerPart, namespace: namespaceOwn, folder: "controller", page: "controller", leads: true},
	{name: csiPart, namespace: namespaceOwn, folder: "csi", page: "pav"},
}

// IsOwn reports whether a container runs a part of Stowage, by the name of its image.
func IsOwn(image string) bool { return strings.HasPrefix(imageName(image), prefix) }

// imageName is the name of an image without registry, tag and digest.
func imageName(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name = name[strings.LastIndex(name, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	return name
}

// imageTag is the tag of an image; empty if it has none.
func imageTag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, tag, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	return tag
}

// workload is the pods of a part: a Deployment, a DaemonSet, or pods that kubelet runs from files.
type workload struct {
	*part
	kind, namespace, name string
	pod                   *corev1.PodSpec // of its template
	wanted, ready         int32
	updated               int32
	// observed: its status is that of its last specification.
	observed   bool
	conditions []appsv1.DeploymentCondition
	pods       []*corev1.Pod
	leader     string
}

// String is the namespace and the name.
func (w *workload) String() string { return w.namespace + "/" + w.name }

// container is the one that runs the part.
func (w *workload) container() *corev1.Container { return containerOf(w.pod, w.app()) }

// containerOf returns the container of a part's image, else the first one.
func containerOf(pod *corev1.PodSpec, app string) *corev1.Container {
	for i := range pod.Containers {
		if imageName(pod.Containers[i].Image) == app {
			return &pod.Containers[i]
		}
	}
	if len(pod.Containers) == 0 {
		return &corev1.Container{}
	}
	return &pod.Containers[0]
}

func (w *workload) component() inspect.Component {
	image := w.container().Image
	return inspect.Component{
		Part: w.part.name, Kind: w.kind, Namespace: w.namespace, Name: w.name,
		Image: image, Version: imageTag(image), Wanted: w.wanted, Ready: w.ready, Leader: w.leader,
	}
}

// of returns the workloads of a part.
func (a *assessment) of(p *part) []*workload {
	return slices.DeleteFunc(slices.Clone(a.workloads), func(w *workload) bool { return w.part != p })
}

// has reports whether a part is installed.
func (a *assessment) has(name string) bool {
	return slices.ContainsFunc(a.workloads, func(w *workload) bool { return w.part.name == name })
}

// find returns the workloads of Stowage, by part, namespace and name. They are known by the label
// app.kubernetes.io/name or by the name of an image.
func find(s *snapshot.Snapshot) []*workload {
	var found []*workload
	pods := snapshot.Of[*corev1.Pod](s)
	for _, d := range snapshot.Of[*appsv1.Deployment](s) {
		if p := partOf(&d.ObjectMeta, &d.Spec.Template.Spec); p != nil {
			found = append(found, &workload{
				part: p, kind: "Deployment", namespace: d.Namespace, name: d.Name, pod: &d.Spec.Template.Spec,
				wanted: ptr.Deref(d.Spec.Replicas, 1), ready: d.Status.ReadyReplicas, updated: d.Status.UpdatedReplicas,
				observed: d.Status.ObservedGeneration >= d.Generation, conditions: d.Status.Conditions,
				pods: selected(pods, d.Namespace, d.Spec.Selector),
			})
		}
	}
	for _, d := range snapshot.Of[*appsv1.DaemonSet](s) {
		if p := partOf(&d.ObjectMeta, &d.Spec.Template.Spec); p != nil {
			found = append(found, &workload{
				part: p, kind: "DaemonSet", namespace: d.Namespace, name: d.Name, pod: &d.Spec.Template.Spec,
				wanted: d.Status.DesiredNumberScheduled, ready: d.Status.NumberReady, updated: d.Status.UpdatedNumberScheduled,
				observed: d.Status.ObservedGeneration >= d.Generation, pods: selected(pods, d.Namespace, d.Spec.Selector),
			})
		}
	}
	found = append(found, static(pods)...)
	slices.SortFunc(found, func(a, b *workload) int {
		return cmp.Or(slices.IndexFunc(parts, a.is)-slices.IndexFunc(parts, b.is), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return found
}

func (w *workload) is(p part) bool { return w.part.name == p.name }

// partOf returns the part of a workload; nil if it is not one of Stowage.
func partOf(meta *metav1.ObjectMeta, pod *corev1.PodSpec) *part {
	for i := range parts {
		app := parts[i].app()
		if meta.Labels["app.kubernetes.io/name"] == app || slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool { return imageName(c.Image) == app }) {
			return &parts[i]
		}
	}
	return nil
}

// namespaceOf returns the namespace of the first workload of a part; that of the manifests if it has none.
func namespaceOf(workloads []*workload, name string) string {
	if i := slices.IndexFunc(workloads, func(w *workload) bool { return w.part.name == name }); i >= 0 {
		return workloads[i].namespace
	}
	return parts[slices.IndexFunc(parts, func(p part) bool { return p.name == name })].namespace
}

// Pods returns the pods of the installation.
func Pods(s *snapshot.Snapshot) []*corev1.Pod {
	var all []*corev1.Pod
	for _, w := range find(s) {
		all = append(all, w.pods...)
	}
	return all
}

// selected returns the pods of a selector.
func selected(pods []*corev1.Pod, namespace string, by *metav1.LabelSelector) []*corev1.Pod {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return nil // the API server accepts valid ones only
	}
	var found []*corev1.Pod
	for _, pod := range pods {
		if pod.Namespace == namespace && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, pod)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// static returns the pods of the scheduler that kubelet runs from files, as a control plane's, as one workload.
func static(pods []*corev1.Pod) []*workload {
	var w *workload
	for _, pod := range pods {
		owner := metav1.GetControllerOf(pod)
		if owner == nil || owner.Kind != "Node" {
			continue
		}
		p := partOf(&metav1.ObjectMeta{}, &pod.Spec)
		if p == nil || p.name != schedulerPart {
			continue
		}
		if w == nil {
			w = &workload{part: p, kind: staticPod, namespace: pod.Namespace, name: "static pods", pod: &pod.Spec, observed: true}
		}
		w.pods = append(w.pods, pod)
		w.wanted++
		w.updated++
		if podReady(pod) {
			w.ready++
		}
	}
	if w == nil {
		return nil
	}
	return []*workload{w}
}

// podReady reports whether a pod is ready.
func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
