// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/cache"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/csi-translation-lib/plugins"

	"stowage.dev/stowage/pkg/controller/pvbinder/rules"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// Names of the indexes of claims and pods.
const (
	byVolume = "stowage.dev/volume" // claims by spec.volumeName
	byClass  = "stowage.dev/class"  // claims without a volume by class
	byClaim  = "stowage.dev/claim"  // pods without a node by the claims that they use
)

// noClass is the key in byClass of claims that name no class.
const noClass = "(none)"

func claimIndexes() cache.Indexers {
	return cache.Indexers{
		byVolume: func(object any) ([]string, error) {
			if claim, ok := object.(*v1.PersistentVolumeClaim); ok && claim.Spec.VolumeName != "" {
				return []string{claim.Spec.VolumeName}, nil
			}
			return nil, nil
		},
		byClass: func(object any) ([]string, error) {
			claim, ok := object.(*v1.PersistentVolumeClaim)
			if !ok || claim.Spec.VolumeName != "" {
				return nil, nil
			}
			if !claims.HasClass(claim) {
				return []string{noClass}, nil
			}
			return []string{match.ClaimClass(claim)}, nil
		},
	}
}

func podIndexes() cache.Indexers {
	return cache.Indexers{byClaim: func(object any) ([]string, error) {
		pod, ok := object.(*v1.Pod)
		if !ok || pod.Spec.NodeName != "" || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			return nil, nil
		}
		return claims.Keys(pod), nil
	}}
}

// claimFacts gathers what rules.DecideClaim reads.
func (c *Controller) claimFacts(claim *v1.PersistentVolumeClaim) *rules.ClaimFacts {
	f := &rules.ClaimFacts{Claim: claim, Drivers: c.drivers}
	if claim.Spec.VolumeName != "" {
		f.Volume = c.Cache.Volume(claim.Spec.VolumeName)
		return f
	}
	f.Referring = c.Cache.VolumesFor(claim)
	f.Class = c.classOf(match.ClaimClass(claim))
	if !claims.HasClass(claim) {
		f.Default = claims.DefaultClass(loop.List[storagev1.StorageClass](c.classInformer, "", ""))
	}
	for _, pod := range loop.List[v1.Pod](c.podInformer, byClaim, keyOf(claim)) {
		f.Pods = append(f.Pods, pod.Name)
	}
	return f
}

// volumeFacts gathers what rules.DecideVolume reads.
func (c *Controller) volumeFacts(volume *v1.PersistentVolume) *rules.VolumeFacts {
	f := &rules.VolumeFacts{Volume: volume, Drivers: c.drivers}
	ref := volume.Spec.ClaimRef
	if ref != nil {
		f.Claim = c.Cache.Claim(ref.Namespace, ref.Name)
	}
	if ref != nil && ref.UID != "" {
		return f
	}
	for _, claim := range loop.List[v1.PersistentVolumeClaim](c.claimInformer, byVolume, volume.Name) {
		if plan.IsBound(claim) && (f.Bound == nil || precedes(claim, f.Bound, ref)) {
			f.Bound = claim
		}
	}
	return f
}

// precedes reports whether claim a has the volume with this claimRef rather than b: the one that it
// names, else the older.
func precedes(a, b *v1.PersistentVolumeClaim, ref *v1.ObjectReference) bool {
	if named := match.RefersTo(ref, a); named != match.RefersTo(ref, b) {
		return named
	}
	return claims.ByAge(a, b) < 0
}

// keyOf returns namespace/name.
func keyOf(claim *v1.PersistentVolumeClaim) string { return claim.Namespace + "/" + claim.Name }

// migratedPlugins returns the CSI drivers by the in-tree plugins that they replace.
func migratedPlugins() map[string]string {
	drivers := map[string]string{}
	for _, plugin := range []string{
		plugins.AWSEBSInTreePluginName, plugins.GCEPDInTreePluginName, plugins.AzureFileInTreePluginName, plugins.AzureDiskInTreePluginName,
		plugins.CinderInTreePluginName, plugins.VSphereInTreePluginName, plugins.PortworxVolumePluginName,
	} {
		if driver, err := csitranslation.New().GetCSINameFromInTreeName(plugin); err == nil {
			drivers[plugin] = driver
		}
	}
	return drivers
}
