// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The steps of a provisioner are either as written or evaluated. As written, which is how they
// are decoded from JSON, only Raw is set: it holds the JSON value, an object or one template
// string. Evaluated, as pkg/pav/render returns them, Raw is nil and the other fields have the
// values of the templates. The marks describe what may be written.

// VolumeValidation limits the volumes that can be requested.
// +kubebuilder:validation:Type=""
// +kubebuilder:pruning:PreserveUnknownFields
type VolumeValidation struct {
	// Raw is the step as written.
	Raw []byte `json:"-"`

	// volumeModes are the volume modes that can be requested: a list of Filesystem and Block, or
	// one template that yields it. The default is Filesystem only.
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:pruning:PreserveUnknownFields
	VolumeModes []VolumeMode `json:"volumeModes,omitempty"`

	// accessModes are the access modes that can be requested: a list of ReadWriteOnce,
	// ReadOnlyMany, ReadWriteMany and ReadWriteOncePod, or one template that yields it. The
	// default is ReadWriteOnce, ReadOnlyMany and ReadWriteMany.
	// +optional
	// +kubebuilder:validation:Type=""
	// +kubebuilder:pruning:PreserveUnknownFields
	AccessModes []AccessMode `json:"accessModes,omitempty"`

	// minCapacity is the least capacity that can be requested: a quantity, or a template that
	// yields it. A claim's limit must not be less.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$|[{][{%#]`
	MinCapacity *resource.Quantity `json:"minCapacity,omitempty"`

	// maxCapacity is the largest capacity that can be requested: a quantity, or a template that
	// yields it. A claim's request must not be more.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$|[{][{%#]`
	MaxCapacity *resource.Quantity `json:"maxCapacity,omitempty"`

	// podTemplate is the pod that runs to completion to validate a claim: a PodTemplateSpec, or
	// one template that yields it. If the pod fails, the claim is refused.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate *corev1.PodTemplateSpec `json:"podTemplate,omitempty"`
}

// VolumeMode is a corev1.PersistentVolumeMode; as written, it may be a template.
// +kubebuilder:validation:Pattern=`^(Filesystem|Block)$|[{][{%#]`
type VolumeMode string

// AccessMode is a corev1.PersistentVolumeAccessMode; as written, it may be a template.
// +kubebuilder:validation:Pattern=`^(ReadWriteOnce|ReadOnlyMany|ReadWriteMany|ReadWriteOncePod)$|[{][{%#]`
type AccessMode string

// VolumeCreation creates a volume.
// +kubebuilder:validation:Type=""
// +kubebuilder:pruning:PreserveUnknownFields
type VolumeCreation struct {
	// Raw is the step as written.
	Raw []byte `json:"-"`

	// handle is the volume's handle, csi.volumeHandle of its PersistentVolume: a string, or a
	// template that yields it. Without it the creation pod may write the handle to /pav/handle;
	// if it does not, the handle is pvc- and the UID of the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	Handle string `json:"handle,omitempty"`

	// capacity is the volume's capacity: a quantity, or a template that yields it. Without it
	// the creation pod must write the capacity to /pav/capacity.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$|[{][{%#]`
	Capacity *resource.Quantity `json:"capacity,omitempty"`

	// podTemplate is the pod that runs to completion to create the volume: a PodTemplateSpec, or
	// one template that yields it. Without it nothing runs.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate *corev1.PodTemplateSpec `json:"podTemplate,omitempty"`
}

// VolumeStaging makes a volume available on a node.
// +kubebuilder:validation:Type=""
// +kubebuilder:pruning:PreserveUnknownFields
type VolumeStaging struct {
	// Raw is the step as written.
	Raw []byte `json:"-"`

	// podTemplate is the pod that makes the volume available at /pav/volume: a PodTemplateSpec,
	// or one template that yields it. The pod runs to completion, or creates /pav/ready and runs
	// on while the volume is in use.
	// +required
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate *corev1.PodTemplateSpec `json:"podTemplate,omitempty"`
}

// VolumeCleanup reverts the creation or the staging of a volume.
// +kubebuilder:validation:Type=""
// +kubebuilder:pruning:PreserveUnknownFields
type VolumeCleanup struct {
	// Raw is the step as written.
	Raw []byte `json:"-"`

	// podTemplate is the pod that runs to completion to revert the step: a PodTemplateSpec, or
	// one template that yields it. It runs until it succeeds, and may run after it succeeded.
	// Without it nothing runs.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplate *corev1.PodTemplateSpec `json:"podTemplate,omitempty"`
}

// UnmarshalJSON sets Raw.
func (v *VolumeValidation) UnmarshalJSON(text []byte) error {
	*v = VolumeValidation{Raw: bytes.Clone(text)}
	return nil
}

// MarshalJSON returns Raw, or the evaluated step.
func (v VolumeValidation) MarshalJSON() ([]byte, error) {
	type evaluated VolumeValidation
	return marshalStep(v.Raw, evaluated(v))
}

// UnmarshalJSON sets Raw.
func (v *VolumeCreation) UnmarshalJSON(text []byte) error {
	*v = VolumeCreation{Raw: bytes.Clone(text)}
	return nil
}

// MarshalJSON returns Raw, or the evaluated step.
func (v VolumeCreation) MarshalJSON() ([]byte, error) {
	type evaluated VolumeCreation
	return marshalStep(v.Raw, evaluated(v))
}

// UnmarshalJSON sets Raw.
func (v *VolumeStaging) UnmarshalJSON(text []byte) error {
	*v = VolumeStaging{Raw: bytes.Clone(text)}
	return nil
}

// MarshalJSON returns Raw, or the evaluated step.
func (v VolumeStaging) MarshalJSON() ([]byte, error) {
	type evaluated VolumeStaging
	return marshalStep(v.Raw, evaluated(v))
}

// UnmarshalJSON sets Raw.
func (v *VolumeCleanup) UnmarshalJSON(text []byte) error {
	*v = VolumeCleanup{Raw: bytes.Clone(text)}
	return nil
}

// MarshalJSON returns Raw, or the evaluated step.
func (v VolumeCleanup) MarshalJSON() ([]byte, error) {
	type evaluated VolumeCleanup
	return marshalStep(v.Raw, evaluated(v))
}

func marshalStep(raw []byte, evaluated any) ([]byte, error) {
	if raw != nil {
		return raw, nil
	}
	return json.Marshal(evaluated)
}

// AccessibilityMode is from which nodes a volume can be used.
type AccessibilityMode string

// The modes.
const (
	// AccessibleAnywhere: from all nodes.
	AccessibleAnywhere AccessibilityMode = "Anywhere"
	// AccessibleSelectedNode: from the node that the scheduler selected.
	AccessibleSelectedNode AccessibilityMode = "SelectedNode"
)

// Accessibility is from which nodes a volume can be used: a mode, or topology keys.
// +kubebuilder:validation:Type=""
// +kubebuilder:pruning:PreserveUnknownFields
type Accessibility struct {
	// Mode is set if a string was written. JSON that is neither a string nor an object with
	// topologyKeys becomes a mode that is not valid.
	Mode AccessibilityMode `json:"-"`

	// topologyKeys are labels of nodes: the volume can be used from the nodes that have the
	// selected node's values of all of them.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	TopologyKeys []string `json:"topologyKeys,omitempty"`
}

type topologyKeys struct {
	TopologyKeys []string `json:"topologyKeys"`
}

// UnmarshalJSON never fails, so that one object that the schema let through does not keep a
// client from reading all others.
func (a *Accessibility) UnmarshalJSON(text []byte) error {
	*a = Accessibility{}
	var keys topologyKeys
	if json.Unmarshal(text, &a.Mode) == nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&keys) == nil && len(keys.TopologyKeys) > 0 {
		a.TopologyKeys = keys.TopologyKeys
		return nil
	}
	a.Mode = AccessibilityMode(text)
	return nil
}

// MarshalJSON returns the string or the object.
func (a Accessibility) MarshalJSON() ([]byte, error) {
	if len(a.TopologyKeys) > 0 {
		return json.Marshal(topologyKeys{TopologyKeys: a.TopologyKeys})
	}
	return json.Marshal(a.Mode)
}
