// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// claimsSigner is the key of the plugin's fragment of a pod's signature.
const claimsSigner = "v1.Pod.Spec.Volumes.BoundClaims()"

// SignPod signs what the plugin's decisions depend on: the volume sources, and the volume
// of each bound claim. The stock fragment contains neither namespace nor volume, so
// claims of the same name in two namespaces would share cached results. A pod with an
// unbound claim is not signed: each such pod changes what the next one finds.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	fragments := []fwk.SignFragment{{Key: fwk.VolumesSignerName, Value: fwk.VolumesSigner(pod)}}
	if !claims.Any(pod) {
		return fragments, nil
	}
	bound := map[string]string{} // JSON sorts the keys
	for use := range claims.Used(pod) {
		claim := p.cache.Claim(pod.Namespace, use.Name)
		if claim == nil || !plan.IsBound(claim) {
			return nil, fwk.NewStatus(fwk.Unschedulable, "pod has a claim that is not bound")
		}
		bound[pod.Namespace+"/"+use.Name] = claim.Spec.VolumeName
	}
	return append(fragments, fwk.SignFragment{Key: claimsSigner, Value: bound}), nil
}
