// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package chartvalues

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// defaultClasses are those of the reference's chart.
var defaultClasses = []any{map[string]any{
	"name": "fast-disks", "hostDir": "/mnt/fast-disks", "volumeMode": "Filesystem", "fsType": "ext4", "namePattern": "*",
	"blockCleanerCommand": []any{"/scripts/shred.sh", "2"},
}}

// sampleClass is the class that Stowage's chart has by default, which values of the reference must remove.
const sampleClass = "local-disks"

// classRules are those of a class.
var classRules = map[string]rule{
	"name":                {kind: text, convert: nothing},
	"hostDir":             {kind: text, to: "settings.hostDir"},
	"mountDir":            {kind: text, to: "settings.mountDir"},
	"volumeMode":          {kind: text, to: "settings.volumeMode"},
	"accessMode":          {kind: text, to: "settings.accessMode"},
	"fsType":              {kind: text, to: "settings.fsType"},
	"namePattern":         {kind: text, to: "settings.namePattern"},
	"blockCleanerCommand": {kind: list, convert: (*conversion).command},
	"selector":            {kind: list, convert: nothing},
	"allowedTopologies":   {convert: nothing}, // a list, or a template
	"storageClass":        {convert: (*conversion).checkStorageClass, fields: storageClassRules},
}

// storageClassRules are those of a class's StorageClass.
var storageClassRules = map[string]rule{
	"reclaimPolicy":  {kind: text, to: "storageClass.reclaimPolicy"},
	"isDefaultClass": {kind: boolean, convert: (*conversion).defaultClass},
	"annotations":    {kind: object, to: "storageClass.annotations"},
	"provisioner":    {kind: text, convert: nothing},
}

// classes converts a list of classes to an object of them, and removes the sample.
func (c *conversion) classes(at *field.Path, value any, _ []string) {
	c.set(nil, "provisioner", "classes", sampleClass)
	for i, item := range value.([]any) {
		at := at.Index(i)
		class, ok := item.(map[string]any)
		name, _ := class["name"].(string)
		switch {
		case !ok:
			c.invalid(at, object)
		case name == "":
			c.errs = append(c.errs, field.Required(at.Child("name"), "must be the name of a StorageClass"))
		case c.classAt[name] != nil:
			c.errs = append(c.errs, field.Duplicate(at.Child("name"), name))
		default:
			c.classAt[name] = at
			c.class(at, class, []string{"provisioner", "classes", name})
		}
	}
}

func (c *conversion) class(at *field.Path, class map[string]any, to []string) {
	if !empty(class["selector"]) {
		// Each node would publish and clean a disk that several share.
		c.warn(at.Child("selector"), "volumes have one node each, so the class is not converted: for disks that several nodes share, use a CSI driver or volumes written by hand")
		return
	}
	created := !empty(class["storageClass"])
	c.set(map[string]any{"settings": map[string]any{}, "storageClass": map[string]any{"create": created}}, to...)
	c.object(at, class, rule{fields: classRules}, to)
	storageClass, _ := class["storageClass"].(map[string]any)
	for _, other := range []struct {
		at    *field.Path
		value any
	}{
		{at.Child("allowedTopologies"), class["allowedTopologies"]},
		{at.Child("storageClass", "provisioner"), storageClass["provisioner"]},
	} {
		if created && !empty(other.value) && other.value != noProvisioner {
			c.set(map[string]any{"create": false}, slices.Concat(to, []string{"storageClass"})...)
			c.warn(other.at, "the chart's StorageClasses have none, so the class is converted without one: keep the reference's, or create it yourself")
		}
	}
}

// noProvisioner is the provisioner of classes whose volumes are not made on demand.
const noProvisioner = "kubernetes.io/no-provisioner"

// checkStorageClass is called for what is no object.
func (c *conversion) checkStorageClass(at *field.Path, value any, _ []string) {
	if kindOf(value) != boolean {
		c.invalid(at, "true, false or an object")
	}
}

func (c *conversion) defaultClass(_ *field.Path, _ any, to []string) {
	c.set("true", slices.Concat(to, []string{"storageClass", "annotations", "storageclass.kubernetes.io/is-default-class"})...)
}

// command converts a command to strings, as the reference's template does.
func (c *conversion) command(_ *field.Path, value any, to []string) {
	var words []any
	for _, word := range value.([]any) {
		words = append(words, fmt.Sprint(word))
	}
	c.set(words, slices.Concat(to, []string{"settings", "blockCleanerCommand"})...)
}
