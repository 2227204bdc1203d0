// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

const (
	// inTreePrefix is the prefix of provisioners that were part of the PV controller.
	inTreePrefix = "kubernetes.io/"
	// noProvisioner is the provisioner of classes that nothing provisions.
	noProvisioner = "kubernetes.io/no-provisioner"
)

// provision requests a volume of the class's provisioner for the claim.
func provision(f *ClaimFacts) Decision {
	name, problem := provisioner(f)
	if problem != "" {
		return pending(f.Claim, Event{Warning: true, Reason: ReasonProvisioningFailed, Note: problem})
	}
	waits := Event{Reason: ReasonExternalProvisioning, Note: fmt.Sprintf("Waiting for a volume to be created either by the external provisioner '%s' or manually by the system administrator. "+
		"If volume creation is delayed, please verify that the provisioner is running and correctly registered.", name)}
	if f.Claim.Annotations[plan.AnnStorageProvisioner] == name {
		return Decision{Do: None, Events: []Event{waits}}
	}
	want := f.Claim.DeepCopy()
	for _, key := range claimProvisionerKeys {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, key, name)
	}
	if migrated := migratedClaim(want, f.Drivers); migrated != nil {
		want = migrated
	}
	return Decision{Do: WriteClaim, Claim: want, Events: []Event{waits}}
}

// provisioner returns the name of the external provisioner of the claim's class, or why there is none.
func provisioner(f *ClaimFacts) (name, problem string) {
	if f.Class == nil {
		return "", fmt.Sprintf("storageclass.storage.k8s.io %q not found", match.ClaimClass(f.Claim))
	}
	name = f.Class.Provisioner
	if driver := f.Drivers[name]; driver != "" {
		return driver, ""
	}
	switch {
	case name == noProvisioner:
		return "", fmt.Sprintf("no persistent volume of storage class %q fits the claim, and nothing provisions this class", f.Class.Name)
	case strings.HasPrefix(name, inTreePrefix):
		return "", fmt.Sprintf("storage class %q has the in-tree provisioner %q, which is not supported: use a class of a CSI driver", f.Class.Name, name)
	}
	return name, ""
}
