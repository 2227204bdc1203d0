// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// Objects are those that the variables of a step come from, as the API server returns them,
// decoded from JSON with integers as int64. Variables shares them and does not change them.
type Objects struct {
	// Claim is the PersistentVolumeClaim: the variable pvc.
	Claim map[string]any
	// Class is the StorageClass: the variable sc.
	Class map[string]any
	// Volume is the PersistentVolume: the variable pv.
	Volume map[string]any
	// Node is the variable node.
	Node map[string]any
}

// needs are the objects that the variables of each step come from.
var needs = map[v1alpha1.PavStepName][]string{
	v1alpha1.PavStepValidation: {"claim", "class"}, // of a dynamic volume
	v1alpha1.PavStepCreation:   {"claim", "class"},
	v1alpha1.PavStepDeletion:   {"claim", "class"},
	v1alpha1.PavStepStaging:    {"claim", "volume", "node"},
	v1alpha1.PavStepUnstaging:  {"claim", "volume", "node"},
}

// Variables returns the variables of a step (seed, "Evaluation context"). It needs exactly the
// objects of the step: claim and class for creation, deletion, and the validation of a dynamic
// volume; the volume alone for the validation of a static volume; claim, volume and node for
// staging and unstaging. Errors are *Error, with the path of a field of an object.
func Variables(step v1alpha1.PavStepName, objects Objects) (map[string]any, error) {
	given := map[string]map[string]any{"claim": objects.Claim, "class": objects.Class, "volume": objects.Volume, "node": objects.Node}
	maps.DeleteFunc(given, func(_ string, object map[string]any) bool { return object == nil })
	static := step == v1alpha1.PavStepValidation && objects.Volume != nil
	required := needs[step]
	if static {
		required = []string{"volume"}
	}
	for _, name := range required {
		if given[name] == nil {
			return nil, &Error{Field: name, Message: fmt.Sprintf("must be given for the step %s", step)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(required, name) {
			return nil, &Error{Field: name, Message: fmt.Sprintf("must not be given for the step %s, which has %v", step, required)}
		}
	}
	switch {
	case static:
		return staticVariables(objects)
	case objects.Node != nil:
		return stagingVariables(objects)
	default:
		return dynamicVariables(objects, step != v1alpha1.PavStepValidation)
	}
}

func dynamicVariables(objects Objects, withHandle bool) (map[string]any, error) {
	var claim corev1.PersistentVolumeClaim
	var class storagev1.StorageClass
	if err := convert("claim", objects.Claim, &claim); err != nil {
		return nil, err
	}
	if err := convert("class", objects.Class, &class); err != nil {
		return nil, err
	}
	least, err := bytesOf(objects.Claim, "claim", "spec", "resources", "requests", "storage")
	if err != nil {
		return nil, err
	}
	var most any
	if _, limited := claim.Spec.Resources.Limits[corev1.ResourceStorage]; limited {
		if most, err = bytesOf(objects.Claim, "claim", "spec", "resources", "limits", "storage"); err != nil {
			return nil, err
		}
	}
	variables := map[string]any{
		"requestedVolumeMode":  modeOf(claim.Spec.VolumeMode),
		"requestedAccessModes": texts(claim.Spec.AccessModes),
		"requestedMinCapacity": least,
		"requestedMaxCapacity": most,
		"params":               values(class.Parameters),
		"sc":                   objects.Class,
		"pvc":                  objects.Claim,
	}
	if withHandle {
		if claim.UID == "" {
			return nil, &Error{Field: "claim.metadata.uid", Message: "must be set"}
		}
		variables["defaultHandle"] = DefaultHandle(&claim)
	}
	return variables, nil
}

// DefaultHandle returns the handle of a dynamic volume for which neither the provisioner nor its
// creation pod states one.
func DefaultHandle(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

func staticVariables(objects Objects) (map[string]any, error) {
	volume, capacity, err := volumeOf(objects)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"requestedVolumeMode":  modeOf(volume.Spec.VolumeMode),
		"requestedAccessModes": texts(volume.Spec.AccessModes),
		"requestedMinCapacity": capacity,
		"requestedMaxCapacity": capacity,
		"params":               values(volume.Spec.CSI.VolumeAttributes),
		"handle":               volume.Spec.CSI.VolumeHandle,
		"pv":                   objects.Volume,
	}, nil
}

func stagingVariables(objects Objects) (map[string]any, error) {
	volume, capacity, err := volumeOf(objects)
	if err != nil {
		return nil, err
	}
	var claim corev1.PersistentVolumeClaim
	if err := convert("claim", objects.Claim, &claim); err != nil {
		return nil, err
	}
	modes := claim.Spec.AccessModes
	return map[string]any{
		"volumeMode":  modeOf(volume.Spec.VolumeMode),
		"accessModes": texts(modes),
		"capacity":    capacity,
		"params":      values(volume.Spec.CSI.VolumeAttributes),
		"handle":      volume.Spec.CSI.VolumeHandle,
		"readOnly":    volume.Spec.CSI.ReadOnly || slices.Equal(modes, []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}),
		"pvc":         objects.Claim,
		"pv":          objects.Volume,
		"node":        objects.Node,
	}, nil
}

// volumeOf returns the volume and its capacity in bytes.
func volumeOf(objects Objects) (*corev1.PersistentVolume, int64, error) {
	volume := &corev1.PersistentVolume{}
	if err := convert("volume", objects.Volume, volume); err != nil {
		return nil, 0, err
	}
	if volume.Spec.CSI == nil || volume.Spec.CSI.VolumeHandle == "" {
		return nil, 0, &Error{Field: "volume.spec.csi.volumeHandle", Message: "must be set"}
	}
	capacity, err := bytesOf(objects.Volume, "volume", "spec", "capacity", "storage")
	return volume, capacity, err
}

func convert(name string, object map[string]any, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, into); err != nil {
		return &Error{Field: name, Message: err.Error()}
	}
	return nil
}

// bytesOf returns a capacity, rounded up to bytes. It is read from JSON, since Kubernetes takes
// seconds to convert some quantities that a user can write.
func bytesOf(object map[string]any, name string, path ...string) (int64, error) {
	value, found, err := unstructured.NestedFieldNoCopy(object, path...)
	at := field.NewPath(name, path...)
	if err != nil || !found {
		return 0, errorAt(at, "must be set")
	}
	quantity, err := ParseCapacity(fmt.Sprint(value))
	if err != nil {
		return 0, errorAt(at, "%v", err)
	}
	return quantity.Value(), nil
}

func modeOf(mode *corev1.PersistentVolumeMode) string {
	if mode == nil {
		return string(corev1.PersistentVolumeFilesystem)
	}
	return string(*mode)
}

func texts(modes []corev1.PersistentVolumeAccessMode) []any {
	list := make([]any, len(modes))
	for i, mode := range modes {
		list[i] = string(mode)
	}
	return list
}

func values(parameters map[string]string) map[string]any {
	object := make(map[string]any, len(parameters))
	for key, value := range parameters {
		object[key] = value
	}
	return object
}
