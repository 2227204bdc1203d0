// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/plan"
)

const (
	// annMigratedTo names the CSI driver that acts on an object of an in-tree plugin.
	annMigratedTo = "pv.kubernetes.io/migrated-to"
	// annProvisionedBy on a volume names what provisioned it.
	annProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// inTreeFinalizer keeps a volume until the PV controller has deleted its storage.
	inTreeFinalizer = "kubernetes.io/pv-controller"
	// externalFinalizer keeps a volume until its external provisioner has deleted its storage.
	externalFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
)

// claimProvisionerKeys are the annotations of a claim that name its provisioner.
var claimProvisionerKeys = []string{plan.AnnStorageProvisioner, plan.AnnBetaStorageProvisioner}

// migratedClaim returns the claim with the annotations of CSI migration, nil if it has them.
func migratedClaim(claim *v1.PersistentVolumeClaim, drivers map[string]string) *v1.PersistentVolumeClaim {
	driver, changed := migratedTo(&claim.ObjectMeta, claimProvisionerKeys, drivers)
	if !changed {
		return nil
	}
	want := claim.DeepCopy()
	setMigratedTo(&want.ObjectMeta, driver)
	return want
}

// migratedVolume returns the volume with the annotations and finalizers of CSI migration, nil if it
// has them.
func migratedVolume(volume *v1.PersistentVolume, drivers map[string]string) *v1.PersistentVolume {
	driver, annotate := migratedTo(&volume.ObjectMeta, []string{annProvisionedBy}, drivers)
	finalizers := slices.DeleteFunc(slices.Clone(volume.Finalizers), func(finalizer string) bool {
		return obsolete(finalizer, volume, drivers)
	})
	if !annotate && len(finalizers) == len(volume.Finalizers) {
		return nil
	}
	want := volume.DeepCopy()
	if annotate {
		setMigratedTo(&want.ObjectMeta, driver)
	}
	want.Finalizers = finalizers
	return want
}

// migratedTo returns the CSI driver in charge of an object whose provisioner is in one of the
// annotations, empty for none, and whether the object has another annotation.
func migratedTo(object *metav1.ObjectMeta, keys []string, drivers map[string]string) (driver string, changed bool) {
	for _, key := range keys {
		if provisioner, ok := object.Annotations[key]; ok {
			driver = drivers[provisioner]
			return driver, driver != object.Annotations[annMigratedTo]
		}
	}
	return "", false
}

func setMigratedTo(object *metav1.ObjectMeta, driver string) {
	if driver == "" {
		delete(object.Annotations, annMigratedTo)
	} else {
		metav1.SetMetaDataAnnotation(object, annMigratedTo, driver)
	}
}

// obsolete reports whether a finalizer waits for a component that does not act on the volume: the
// in-tree plugin after its migration or if the storage is kept, the external provisioner of an
// in-tree volume that was not migrated.
func obsolete(finalizer string, volume *v1.PersistentVolume, drivers map[string]string) bool {
	provisioner, provisioned := volume.Annotations[annProvisionedBy]
	if !provisioned {
		return false
	}
	migrated := drivers[provisioner] != ""
	inTree := !migrated && strings.HasPrefix(provisioner, inTreePrefix)
	switch finalizer {
	case inTreeFinalizer:
		return migrated || inTree && volume.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete
	case externalFinalizer:
		return inTree
	}
	return false
}
