// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// Workload is an object that has pods.
type Workload struct {
	// Kind, Namespace and Name are those of the object. Kind is empty for a set of claims, which is no object.
	Kind, Namespace, Name string
	// Replicas is the number of its pods.
	Replicas int
	// Ordered: a pod is created when those before it run.
	Ordered bool

	// Template is that of its pods.
	Template corev1.PodTemplateSpec
	// claims are the volumeClaimTemplates of a StatefulSet.
	claims []corev1.PersistentVolumeClaim
	// ordinal is the number of the first pod.
	ordinal int
	// object is the controller of the pods, which plugins read; nil for none.
	object snapshot.Object
}

// String names the workload for users.
func (w *Workload) String() string {
	return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name)
}

// kinds are those that Decode accepts.
const kinds = "a StatefulSet, Deployment, ReplicaSet, Job or Pod"

// Decode reads manifests: one workload, and objects beside it, of kinds that a scheduler reads. Objects of other
// kinds are ignored. namespace is that of objects without one; if fixed, others must not have another one.
func Decode(content io.Reader, namespace string, fixed bool) (*Workload, []snapshot.Object, error) {
	var workloads []*Workload
	var beside []snapshot.Object
	var ignored []string
	documents := utilyaml.NewYAMLOrJSONDecoder(content, 4096)
	for n := 1; ; n++ {
		var document runtime.RawExtension
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("document %d: %w", n, err)
		}
		objects, err := decode(document.Raw)
		if err != nil {
			return nil, nil, fmt.Errorf("document %d: %w", n, err)
		}
		for _, object := range objects {
			kind := object.GetObjectKind().GroupVersionKind().Kind
			typed, ok := object.(snapshot.Object)
			if !ok {
				return nil, nil, fmt.Errorf("document %d: kind %s is not an object", n, kind)
			}
			if err := place(typed, namespace, fixed); err != nil {
				return nil, nil, fmt.Errorf("%s %s: %w", kind, typed.GetName(), err)
			}
			w, err := workloadOf(typed)
			switch {
			case err != nil:
				return nil, nil, err
			case w != nil:
				workloads = append(workloads, w)
			case scheduled(typed):
				beside = append(beside, typed)
			default:
				ignored = append(ignored, kind)
			}
		}
	}
	switch {
	case len(workloads) == 1:
		return workloads[0], beside, nil
	case len(workloads) > 1:
		var names []string
		for _, w := range workloads {
			names = append(names, w.String())
		}
		return nil, nil, fmt.Errorf("it has more than one object with pods: %s; give one at a time", strings.Join(names, ", "))
	case len(beside)+len(ignored) == 0:
		return nil, nil, fmt.Errorf("it is empty; it must have %s", kinds)
	}
	for _, object := range beside {
		ignored = append(ignored, object.GetObjectKind().GroupVersionKind().Kind)
	}
	slices.Sort(ignored)
	return nil, nil, fmt.Errorf("no object in it has pods that can be placed; it has %s, and must have %s", strings.Join(slices.Compact(ignored), ", "), kinds)
}

// decoder refuses unknown fields, as kubectl apply does.
var decoder = serializer.NewCodecFactory(clientscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// decode returns the object of a document, or those of a list. Objects of unknown kinds are left out.
func decode(raw []byte) ([]runtime.Object, error) {
	if text := strings.TrimSpace(string(raw)); text == "" || text == "null" {
		return nil, nil
	}
	object, gvk, err := decoder.Decode(raw, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err) && gvk != nil:
		return []runtime.Object{&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: gvk.Kind}}}, nil
	case err != nil:
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(*gvk)
	list, ok := object.(*corev1.List)
	if !ok {
		return []runtime.Object{object}, nil
	}
	var all []runtime.Object
	for _, item := range list.Items {
		objects, err := decode(item.Raw)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// place sets the namespace of an object.
func place(object snapshot.Object, namespace string, fixed bool) error {
	switch object.(type) {
	case *appsv1.StatefulSet, *appsv1.Deployment, *appsv1.ReplicaSet, *batchv1.Job, *corev1.Pod, *corev1.PersistentVolumeClaim, *corev1.Service:
	default:
		return nil
	}
	switch in := object.GetNamespace(); {
	case in == "":
		object.SetNamespace(namespace)
	case fixed && in != namespace:
		return fmt.Errorf("metadata.namespace is %q, and --namespace is %q: omit one of them", in, namespace)
	}
	return nil
}

// scheduled reports whether schedulers read objects of this type.
func scheduled(object snapshot.Object) bool {
	return slices.ContainsFunc(snapshot.Scheduling(), func(k snapshot.Kind) bool { return reflect.TypeOf(k.New()) == reflect.TypeOf(object) })
}

// workloadOf returns the workload of an object, nil for objects without pods. The error is why its pods cannot be placed.
func workloadOf(object snapshot.Object) (*Workload, error) {
	w := &Workload{Kind: object.GetObjectKind().GroupVersionKind().Kind, Namespace: object.GetNamespace(), Name: object.GetName(), Replicas: 1}
	var selector *metav1.LabelSelector
	var replicas *int32
	switch o := object.(type) {
	case *appsv1.StatefulSet:
		w.Template, selector, replicas = o.Spec.Template, o.Spec.Selector, o.Spec.Replicas
		w.claims, w.object = o.Spec.VolumeClaimTemplates, o
		w.Ordered = o.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
		if o.Spec.Ordinals != nil {
			w.ordinal = int(o.Spec.Ordinals.Start)
		}
	case *appsv1.Deployment:
		w.Template, selector, replicas = o.Spec.Template, o.Spec.Selector, o.Spec.Replicas
		w.object = replicaSetOf(o)
	case *appsv1.ReplicaSet:
		w.Template, selector, replicas = o.Spec.Template, o.Spec.Selector, o.Spec.Replicas
		w.object = o
	case *batchv1.Job:
		w.Template, replicas = o.Spec.Template, o.Spec.Parallelism
		if n := o.Spec.Completions; n != nil && replicas != nil && *n < *replicas {
			replicas = n
		}
	case *corev1.Pod:
		if o.Name == "" {
			return nil, errors.New("a Pod has no metadata.name")
		}
		w.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: o.Labels, Annotations: o.Annotations}, Spec: o.Spec}
		return w, nil
	case *appsv1.DaemonSet, *batchv1.CronJob, *corev1.ReplicationController:
		return nil, fmt.Errorf("%s %s: %ss are not supported; give its pod template as a Pod", w.Kind, w.Name, w.Kind)
	default:
		return nil, nil
	}
	if w.Name == "" {
		return nil, fmt.Errorf("a %s has no metadata.name", w.Kind)
	}
	if replicas != nil {
		w.Replicas = int(*replicas)
	}
	if w.Kind == "Job" {
		return w, nil
	}
	if selector == nil {
		return nil, fmt.Errorf("%s %s: spec.selector is required", w.Kind, w.Name)
	}
	matches, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("%s %s: spec.selector: %w", w.Kind, w.Name, err)
	}
	if !matches.Matches(labels.Set(w.Template.Labels)) {
		return nil, fmt.Errorf("%s %s: spec.selector does not match spec.template.metadata.labels", w.Kind, w.Name)
	}
	return w, nil
}
