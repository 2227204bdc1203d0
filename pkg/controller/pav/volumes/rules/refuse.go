// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/scheduling/claims"
)

const (
	// AnnSelectedNode is the node that the scheduler selected for a claim.
	AnnSelectedNode = "volume.kubernetes.io/selected-node"
	// reservedParameters is the prefix of parameters that are instructions for CSI sidecars.
	reservedParameters = "csi.storage.k8s.io/"
	// maxClaim is the largest claim in bytes, as JSON. The PavVolume has a copy of it, and must stay
	// below 1.5 MiB, the limit of etcd for a request.
	maxClaim = 512 << 10
)

// begin decides about a claim for which nothing of a volume exists. The claims of provisioners that
// are no PavProvisioners have the same annotation.
func (f *Facts) begin() Step {
	c := f.Claim
	if c == nil || f.Provisioner == nil {
		return None{}
	}
	if p := f.Provisioner; p.Revision == "" && p.Problem == "" && !p.Deleting {
		return None{} // it was not validated yet
	}
	switch {
	case f.adopts():
		return f.adopt()
	case c.DeletionTimestamp != nil || c.Spec.VolumeName != "" || populated(c):
		return None{}
	}
	if refusal := f.refusal(); refusal != nil {
		return *refusal
	}
	node := c.Annotations[AnnSelectedNode]
	switch {
	case node == "" && claims.LateBinding(f.Class):
		return None{} // the scheduler has not selected a node
	case node != "" && f.Node == nil:
		return f.certain(ReleaseNode{})
	}
	begin := Begin{Claim: c, Class: f.Class, Revision: f.Provisioner.Revision, Node: node}
	if f.Volume != nil {
		begin.Status = *f.Volume.Status.DeepCopy()
	}
	begin.Status.Phase, begin.Status.RetryTime = stowage.PavVolumeValidating, nil
	return f.certain(begin)
}

// populated reports whether a volume populator fills the volume of a claim. It makes another
// claim, without a source, which is provisioned.
func populated(c *corev1.PersistentVolumeClaim) bool {
	ref := c.Spec.DataSourceRef
	return ref != nil && c.Spec.DataSource == nil && ref.Kind != "PersistentVolumeClaim" && ref.Kind != "VolumeSnapshot"
}

// refusal returns why no volume is made for the claim; nil if one can be.
func (f *Facts) refusal() *Refuse {
	for _, check := range []func() *Refuse{f.refuseProvisioner, f.refuseClass, f.refuseClaim} {
		if refusal := check(); refusal != nil {
			return refusal
		}
	}
	if f.PV != nil {
		return refuse(NameInUse, "PersistentVolume %s exists, but this controller did not create it", f.PV.Name)
	}
	return f.refuseByValidation(f.Claim)
}

func refuse(reason Reason, format string, args ...any) *Refuse {
	return &Refuse{Event{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

func (f *Facts) refuseProvisioner() *Refuse {
	switch p := f.Provisioner; {
	case p.Deleting:
		return refuse(NotAccepted, "PavProvisioner %s is being deleted", p.Name)
	case p.Problem != "":
		return refuse(NotAccepted, "PavProvisioner %s is not accepted: %s", p.Name, p.Problem)
	case !p.Dynamic:
		return refuse(NotAccepted, "spec.provisioningModes of PavProvisioner %s does not have Dynamic", p.Name)
	default:
		return nil
	}
}

func (f *Facts) refuseClass() *Refuse {
	class, p := f.Class, f.Provisioner
	switch {
	case class == nil:
		return refuse(ClassUnsuitable, "the StorageClass of the claim does not exist")
	case class.Provisioner != p.Name:
		return refuse(ClassUnsuitable, "provisioner of StorageClass %s is %s, but the claim's annotation names %s", class.Name, class.Provisioner, p.Name)
	case !claims.LateBinding(class) && !p.Access.Anywhere():
		return refuse(ClassUnsuitable, "volumeBindingMode of StorageClass %s must be WaitForFirstConsumer, because spec.accessibility of PavProvisioner %s is not Anywhere", class.Name, p.Name)
	case !claims.LateBinding(class) && len(class.AllowedTopologies) > 0:
		return refuse(ClassUnsuitable, "volumeBindingMode of StorageClass %s must be WaitForFirstConsumer, because it has allowedTopologies", class.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(class.Parameters)) {
		if strings.HasPrefix(name, reservedParameters) {
			return refuse(ClassUnsuitable, "parameter %s of StorageClass %s is not supported, like all that begin with %s", name, class.Name, reservedParameters)
		}
	}
	return nil
}

func (f *Facts) refuseClaim() *Refuse {
	spec := &f.Claim.Spec
	text, err := json.Marshal(f.Claim)
	switch {
	case err != nil || len(text) > maxClaim:
		return refuse(NotSupported, "the claim has %d bytes, must have at most %d, its annotations and labels included", len(text), maxClaim)
	case spec.Selector != nil:
		return refuse(NotSupported, "spec.selector is not supported: the volume that is made for a claim has no labels")
	case spec.DataSource != nil || spec.DataSourceRef != nil:
		return refuse(NotSupported, "spec.dataSource and spec.dataSourceRef are not supported: a volume cannot be made from a snapshot or another volume")
	case spec.VolumeAttributesClassName != nil && *spec.VolumeAttributesClassName != "":
		return refuse(NotSupported, "spec.volumeAttributesClassName is not supported")
	default:
		return nil
	}
}

// refuseByValidation compares a claim with the fields of volumeValidation.
func (f *Facts) refuseByValidation(claim *corev1.PersistentVolumeClaim) *Refuse {
	e, spec := &f.Evaluated, &claim.Spec
	if e.Problem != "" {
		return refuse(Invalid, "%s", e.Problem)
	}
	mode := corev1.PersistentVolumeFilesystem
	if spec.VolumeMode != nil {
		mode = *spec.VolumeMode
	}
	if !slices.Contains(e.VolumeModes, mode) {
		return refuse(Invalid, "spec.volumeMode is %s, but volumeValidation.volumeModes allows %v", mode, e.VolumeModes)
	}
	for _, mode := range spec.AccessModes {
		if !slices.Contains(e.AccessModes, mode) {
			return refuse(Invalid, "spec.accessModes has %s, but volumeValidation.accessModes allows %v", mode, e.AccessModes)
		}
	}
	request := spec.Resources.Requests[corev1.ResourceStorage]
	if e.MaxCapacity != nil && request.Value() > *e.MaxCapacity {
		return refuse(Invalid, "spec.resources.requests.storage is %s, but volumeValidation.maxCapacity allows %d bytes", request.String(), *e.MaxCapacity)
	}
	limit, limited := spec.Resources.Limits[corev1.ResourceStorage]
	if e.MinCapacity != nil && limited && limit.Value() < *e.MinCapacity {
		return refuse(Invalid, "spec.resources.limits.storage is %s, but volumeValidation.minCapacity requires %d bytes", limit.String(), *e.MinCapacity)
	}
	return nil
}
