// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sysdump writes the state of a cluster with Stowage into one archive, without what can be secret.
package sysdump

import (
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// dropped replaces a value that was left out.
const dropped = "(dropped)"

// Redactor leaves out of objects what can be secret.
type Redactor struct {
	// Own reports whether an image is one of Stowage. Arguments of other containers are dropped.
	Own func(image string) bool
	// ConfigMaps are those of Stowage. Others are left out.
	ConfigMaps []snapshot.Name
}

// Redact changes an object, and reports whether it may be written at all.
func (r *Redactor) Redact(object snapshot.Object) bool {
	switch o := object.(type) {
	case *corev1.ConfigMap:
		if !slices.Contains(r.ConfigMaps, snapshot.Name{Namespace: o.Namespace, Name: o.Name}) {
			return false
		}
	case *admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding,
		*admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding:
		if !strings.HasPrefix(object.GetName(), "stowage-") {
			return false // rules of others can name anything
		}
	case *corev1.Event:
		// The output of probes and hooks.
		if slices.Contains([]string{"Unhealthy", "ProbeWarning", "FailedPostStartHook", "FailedPreStopHook"}, o.Reason) {
			o.Message = dropped
		}
	}
	walk(reflect.ValueOf(object), r.drop)
	return true
}

// walk calls visit with a pointer to each struct in a value.
func walk(v reflect.Value, visit func(pointer any)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), visit)
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			walk(v.Index(i), visit)
		}
	case reflect.Struct:
		if !v.CanAddr() || !v.Addr().CanInterface() {
			return
		}
		visit(v.Addr().Interface())
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i), visit)
			}
		}
	}
}

// drop removes the secrets of one struct.
func (r *Redactor) drop(pointer any) {
	switch p := pointer.(type) {
	case *metav1.ObjectMeta:
		p.ManagedFields = nil
		redactAnnotations(p.Annotations)
	case *corev1.EnvVar:
		p.Value = ""
	case *corev1.Container:
		if !r.Own(p.Image) {
			p.Command, p.Args, p.Lifecycle = nil, nil, nil
			p.LivenessProbe, p.ReadinessProbe, p.StartupProbe = nil, nil, nil
		}
	case *corev1.EphemeralContainerCommon:
		p.Command, p.Args, p.Lifecycle = nil, nil, nil
		p.LivenessProbe, p.ReadinessProbe, p.StartupProbe = nil, nil, nil
	case *corev1.ContainerStatus:
		if !r.Own(p.Image) {
			for _, state := range []*corev1.ContainerState{&p.State, &p.LastTerminationState} {
				if state.Terminated != nil {
					state.Terminated.Message = ""
				}
			}
		}
	case *corev1.PersistentVolumeSpec:
		p.MountOptions = redactOptions(p.MountOptions)
	case *storagev1.StorageClass:
		p.MountOptions = redactOptions(p.MountOptions)
		redactValues(p.Parameters)
	default:
		dropOpaque(pointer)
	}
}

// dropOpaque removes what drivers and provisioners interpret, and copies of objects.
func dropOpaque(pointer any) {
	switch p := pointer.(type) {
	case *corev1.CSIPersistentVolumeSource:
		redactValues(p.VolumeAttributes)
	case *corev1.CSIVolumeSource:
		redactValues(p.VolumeAttributes)
	case *corev1.FlexPersistentVolumeSource:
		redactValues(p.Options)
	case *corev1.FlexVolumeSource:
		redactValues(p.Options)
	case *storagev1.VolumeAttachmentStatus:
		redactValues(p.AttachmentMetadata)
	case *resourcev1.OpaqueDeviceConfiguration:
		p.Parameters = runtime.RawExtension{Raw: []byte(`{}`)}
	case *stowage.PavProvisionerSpec:
		redactSteps(p)
		p.MountOptions = redactOptions(p.MountOptions)
	case *stowage.PavVolumeSpec:
		p.Claim, p.Class = runtime.RawExtension{}, runtime.RawExtension{}
	case *stowage.PavStagingStatus:
		p.Claim, p.Volume, p.Node = runtime.RawExtension{}, runtime.RawExtension{}, runtime.RawExtension{}
	case *stowage.PavStepResult:
		p.Message = "" // a helper pod writes it
	}
}

// redactSteps drops the templates of a PavProvisioner. Its steps stay.
func redactSteps(p *stowage.PavProvisionerSpec) {
	template := []byte(`"` + dropped + `"`)
	p.VolumeStaging = stowage.VolumeStaging{Raw: template}
	if p.VolumeValidation != nil {
		p.VolumeValidation = &stowage.VolumeValidation{Raw: template}
	}
	if p.VolumeCreation != nil {
		p.VolumeCreation = &stowage.VolumeCreation{Raw: template}
	}
	if p.VolumeDeletion != nil {
		p.VolumeDeletion = &stowage.VolumeCleanup{Raw: template}
	}
	if p.VolumeUnstaging != nil {
		p.VolumeUnstaging = &stowage.VolumeCleanup{Raw: template}
	}
}

// redactAnnotations drops the values of annotations, but for those of Kubernetes and Stowage.
func redactAnnotations(annotations map[string]string) {
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	for key := range annotations {
		domain, _, _ := strings.Cut(key, "/")
		if !slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "stowage.dev"}, func(known string) bool {
			return domain == known || strings.HasSuffix(domain, "."+known)
		}) {
			annotations[key] = dropped
		}
	}
}

// redactValues drops the values of a map.
func redactValues(values map[string]string) {
	for key := range values {
		values[key] = dropped
	}
}

// redactOptions drops the values of mount options, such as password=x.
func redactOptions(options []string) []string {
	var all []string
	for _, option := range options {
		if name, _, hasValue := strings.Cut(option, "="); hasValue {
			option = name + "=" + dropped
		}
		all = append(all, option)
	}
	return all
}
