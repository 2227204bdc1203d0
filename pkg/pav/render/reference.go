// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import "slices"

// Context is where templates are evaluated, as users read it.
type Context string

// The contexts. The steps of static volumes other than validation have the variables of dynamic ones.
const (
	OfValidation       Context = "validation"
	OfStaticValidation Context = "validation of a static volume"
	OfCreation         Context = "creation"
	OfDeletion         Context = "deletion"
	OfStaging          Context = "staging"
	OfUnstaging        Context = "unstaging"
	OfStorageCapacity  Context = "storageCapacity"
)

// Variable describes a variable of templates, for docs/pav-reference.md.
type Variable struct {
	Name, Type string
	Contexts   []Context
	Meaning    string
}

// DescribeVariables returns the description of all variables. Some have several, for different
// contexts.
func DescribeVariables() []Variable {
	made := []Context{OfValidation, OfCreation, OfDeletion}
	requested := append(slices.Clone(made), OfStaticValidation)
	staged := []Context{OfStaging, OfUnstaging}
	ofVolume := append(slices.Clone(staged), OfStaticValidation)
	const quantity = "integer, bytes"
	return []Variable{
		{"requestedVolumeMode", "text", requested, "`Filesystem` or `Block`, of the claim; of a static volume that of the PersistentVolume"},
		{"requestedAccessModes", "list of texts", requested, "the access modes of the claim; of a static volume those of the PersistentVolume"},
		{"requestedMinCapacity", quantity, requested, "`spec.resources.requests.storage` of the claim; the capacity of a static volume"},
		{"requestedMaxCapacity", quantity + ", or none", requested, "`spec.resources.limits.storage` of the claim, none without it; the capacity of a static volume"},
		{"params", "dict of texts", made, "`parameters` of the StorageClass"},
		{"sc", "dict", made, "the StorageClass, at the time of the attempt"},
		{"pvc", "dict", made, "the PersistentVolumeClaim, at the time of the attempt"},
		{"defaultHandle", "text", []Context{OfCreation, OfDeletion}, "`pvc-` and the UID of the claim: the handle if neither `volumeCreation.handle` nor `/pav/handle` states one"},
		{"volumeMode", "text", staged, "`Filesystem` or `Block`, of the PersistentVolume"},
		{"accessModes", "list of texts", staged, "the access modes of the claim"},
		{"capacity", quantity, staged, "the capacity of the PersistentVolume"},
		{"params", "dict of texts", ofVolume, "`spec.csi.volumeAttributes` of the PersistentVolume, which for dynamic volumes are the parameters of the class"},
		{"handle", "text", ofVolume, "`spec.csi.volumeHandle` of the PersistentVolume"},
		{"readOnly", "boolean", staged, "whether `spec.csi.readOnly` of the PersistentVolume is true, or the claim has only the access mode ReadOnlyMany"},
		{"pvc", "dict", staged, "the PersistentVolumeClaim, at the time of the attempt"},
		{"pv", "dict", ofVolume, "the PersistentVolume, at the time of the attempt"},
		{"node", "dict", staged, "the Node, at the time of the attempt, without `status.images`"},
		{"node", "dict", []Context{OfStorageCapacity}, "the Node"},
	}
}

// GetPVC describes the function that templates of steps can call besides those of package template.
const GetPVC = "the PersistentVolumeClaim `name` of `namespace`, which must be the namespace of the variable `pvc` or in `podNamespaces.names`; an error if it does not exist"
