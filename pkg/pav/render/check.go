// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/pav/template"
)

// Check returns what is wrong with a provisioner for every volume: syntax errors of all templates,
// and what the schema cannot refuse. Values that depend on templates are not checked. At most one
// error of the values of a step is reported. A provisioner without errors can be accepted.
func Check(spec *v1alpha1.PavProvisionerSpec) []*Error {
	errs := slices.Concat(
		checkStep("volumeValidation", spec.VolumeValidation, (*decoder).validation),
		checkStep("volumeCreation", spec.VolumeCreation, (*decoder).creation),
		checkStep("volumeDeletion", spec.VolumeDeletion, (*decoder).cleanup),
		checkStep("volumeStaging", &spec.VolumeStaging, (*decoder).staging),
		checkStep("volumeUnstaging", spec.VolumeUnstaging, (*decoder).cleanup),
		checkModes(spec),
	)
	path := field.NewPath("spec")
	a := spec.Accessibility
	if capacity := spec.StorageCapacity; capacity != nil {
		if _, err := template.Parse(capacity.String()); err != nil {
			errs = append(errs, positioned(path.Child("storageCapacity"), err))
		}
		if a == nil || a.Mode != v1alpha1.AccessibleSelectedNode {
			errs = append(errs, errorAt(path.Child("storageCapacity"), "needs accessibility SelectedNode: it is the capacity of one node"))
		}
	}
	if a != nil && len(a.TopologyKeys) == 0 && a.Mode != v1alpha1.AccessibleAnywhere && a.Mode != v1alpha1.AccessibleSelectedNode {
		errs = append(errs, errorAt(path.Child("accessibility"), "must be Anywhere, SelectedNode, or an object with topologyKeys only, and is %s", a.Mode))
	}
	return errs
}

// checkModes: what creates and deletes volumes is for the mode Dynamic.
func checkModes(spec *v1alpha1.PavProvisionerSpec) []*Error {
	path := field.NewPath("spec")
	if slices.Contains(spec.ProvisioningModes, v1alpha1.ProvisioningDynamic) {
		if spec.VolumeCreation == nil {
			return []*Error{errorAt(path.Child("volumeCreation"), "must be set for the provisioning mode Dynamic")}
		}
		return nil
	}
	var errs []*Error
	if spec.VolumeCreation != nil {
		errs = append(errs, errorAt(path.Child("volumeCreation"), "must not be set without the provisioning mode Dynamic"))
	}
	if spec.VolumeDeletion != nil {
		errs = append(errs, errorAt(path.Child("volumeDeletion"), "must not be set without the provisioning mode Dynamic"))
	}
	return errs
}

// checkStep parses the templates of a step, masks those that are more than text, and decodes the
// rest.
func checkStep[T any](name string, step *T, decode func(*decoder) *T) []*Error {
	if step == nil {
		return nil
	}
	path := field.NewPath("spec", name)
	tree, err := written(path, step)
	if err != nil {
		return []*Error{err}
	}
	var errs []*Error
	tree, _ = walk(path, tree, func(path *field.Path, source string) (any, *Error) {
		if !strings.Contains(source, "{{") && !strings.Contains(source, "{%") && !strings.Contains(source, "{#") {
			return source, nil
		}
		if _, err := template.Parse(source); err != nil {
			errs = append(errs, positioned(path, err))
		}
		return masked{}, nil
	})
	d := &decoder{path: path}
	d.open(tree)
	if decode(d); d.err != nil {
		errs = append(errs, d.err)
	}
	return errs
}
