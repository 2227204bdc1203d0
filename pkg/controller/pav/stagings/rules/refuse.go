// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxCopy is the largest claim, PersistentVolume or node in bytes, as JSON. The status has a copy of
// each, and the PavStaging must stay below 1.5 MiB, the limit of etcd for a request.
const maxCopy = 400 << 10

// refusal returns why the volume is not staged; nil if it can be. A node cannot have a volume that no
// pod uses there: it could read the volumes of others.
func (f *Facts) refusal() *Event {
	for _, check := range []func() *Event{f.refuseProvisioner, f.refusePVs, f.refuseUse, f.refuseSource, f.refuseSize} {
		if refusal := check(); refusal != nil {
			return refusal
		}
	}
	return nil
}

func refuse(reason Reason, format string, args ...any) *Event {
	return &Event{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func (f *Facts) refuseProvisioner() *Event {
	switch p, name := f.Provisioner, f.Staging.Spec.Provisioner; {
	case p == nil:
		return refuse(NotAccepted, "PavProvisioner %s does not exist", name)
	case p.Revision == "" && p.Problem != "":
		return refuse(NotAccepted, "PavProvisioner %s is not accepted: %s", name, p.Problem)
	case p.Revision == "":
		return refuse(NotAccepted, "PavProvisioner %s is not accepted yet", name)
	default:
		return nil
	}
}

func (f *Facts) refusePVs() *Event {
	handle := f.Staging.Spec.Handle
	switch len(f.PVs) {
	case 0:
		return refuse(NotFound, "no PersistentVolume has driver %s and the handle %q", f.Staging.Spec.Provisioner, handle)
	case 1:
	default:
		return refuse(HandleShared, "PersistentVolumes %s and %s have the same handle %q: delete one of them", f.PVs[0].Name, f.PVs[1].Name, handle)
	}
	pv := f.PV()
	switch {
	case pv.Spec.ClaimRef == nil || pv.Status.Phase != corev1.VolumeBound || f.Claim == nil || f.Claim.UID != pv.Spec.ClaimRef.UID || f.Claim.Spec.VolumeName != pv.Name:
		return refuse(NotBound, "PersistentVolume %s is not bound to a claim", pv.Name)
	case f.Volume != nil && !f.provisioned():
		return refuse(NotBound, "PavVolume %s is %s, must be Provisioned", f.Volume.Name, f.Volume.Status.Phase)
	case f.Volume == nil && !f.Provisioner.Static:
		return refuse(NotAccepted, "spec.provisioningModes of PavProvisioner %s does not have Static, and this controller did not create PersistentVolume %s", f.Provisioner.Name, pv.Name)
	default:
		return nil
	}
}

func (f *Facts) refuseUse() *Event {
	switch {
	case !f.Used:
		return refuse(Unused, "no pod on node %s uses claim %s/%s", f.Staging.Spec.NodeName, f.Claim.Namespace, f.Claim.Name)
	case f.StagedOn != "":
		return refuse(StagedElsewhere, "the volume can be used on one node at a time, and is staged on node %s", f.StagedOn)
	default:
		return nil
	}
}

// refuseSource returns which field of the PersistentVolume is not supported.
func (f *Facts) refuseSource() *Event {
	pv := f.PV()
	csi := pv.Spec.CSI
	for _, option := range pv.Spec.MountOptions {
		if !slices.Contains(f.Provisioner.MountOptions, option) {
			return refuse(NotSupported, "spec.mountOptions of PersistentVolume %s has %q, but spec.mountOptions of PavProvisioner %s allows %s", pv.Name, option, f.Provisioner.Name, allowed(f.Provisioner.MountOptions))
		}
	}
	switch {
	case csi.FSType != "" && !f.Provisioner.NeedsFSType:
		return refuse(NotSupported, "spec.csi.fsType of PersistentVolume %s must not be set, unless spec.fsGroupPolicy of PavProvisioner %s is ReadWriteOnceWithFSType: the staging pod decides about the file system", pv.Name, f.Provisioner.Name)
	case csi.NodeStageSecretRef != nil, csi.NodePublishSecretRef != nil, csi.ControllerPublishSecretRef != nil, csi.ControllerExpandSecretRef != nil, csi.NodeExpandSecretRef != nil:
		return refuse(NotSupported, "spec.csi of PersistentVolume %s refers to Secrets, which are not supported: name them in the pod templates", pv.Name)
	default:
		return nil
	}
}

func allowed(options []string) string {
	if len(options) == 0 {
		return "none"
	}
	return strings.Join(options, ", ")
}

func (f *Facts) refuseSize() *Event {
	for kind, object := range map[string]any{"claim": f.Claim, "PersistentVolume": f.PV(), "Node": f.Node} {
		if text, err := json.Marshal(object); err != nil || len(text) > maxCopy {
			return refuse(NotSupported, "the %s has %d bytes, must have at most %d, its annotations and labels included", kind, len(text), maxCopy)
		}
	}
	return nil
}

// refuseByValidation compares a static volume with the fields of volumeValidation.
func (f *Facts) refuseByValidation() *Event {
	e, pv := &f.Evaluated, f.PV()
	if e.Problem != "" {
		return refuse(Invalid, "%s", e.Problem)
	}
	if pv == nil {
		return nil
	}
	if mode := modeOf(pv); !slices.Contains(e.VolumeModes, mode) {
		return refuse(Invalid, "spec.volumeMode of PersistentVolume %s is %s, but volumeValidation.volumeModes allows %v", pv.Name, mode, e.VolumeModes)
	}
	for _, mode := range pv.Spec.AccessModes {
		if !slices.Contains(e.AccessModes, mode) {
			return refuse(Invalid, "spec.accessModes of PersistentVolume %s has %s, but volumeValidation.accessModes allows %v", pv.Name, mode, e.AccessModes)
		}
	}
	capacity := pv.Spec.Capacity[corev1.ResourceStorage]
	if e.MinCapacity != nil && capacity.Value() < *e.MinCapacity {
		return refuse(Invalid, "spec.capacity.storage of PersistentVolume %s is %s, but volumeValidation.minCapacity requires %d bytes", pv.Name, capacity.String(), *e.MinCapacity)
	}
	if e.MaxCapacity != nil && capacity.Value() > *e.MaxCapacity {
		return refuse(Invalid, "spec.capacity.storage of PersistentVolume %s is %s, but volumeValidation.maxCapacity allows %d bytes", pv.Name, capacity.String(), *e.MaxCapacity)
	}
	return nil
}

func modeOf(pv *corev1.PersistentVolume) corev1.PersistentVolumeMode {
	if pv.Spec.VolumeMode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *pv.Spec.VolumeMode
}
