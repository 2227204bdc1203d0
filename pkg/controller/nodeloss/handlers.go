// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/scheduling/claims"
)

// Names of the indexes of volumes, pods, reports and tombstones.
const (
	byNode        = "stowage-node"
	byProvisioner = "stowage-provisioner"
	byClaim       = "stowage-claim"
	byIdentity    = "stowage-identity"
	byRetained    = "stowage-retained"
	byNamespace   = "stowage-namespace"
	byRelease     = "stowage-release"
)

// watch adds handlers that enqueue the names of the volumes that an event may concern.
func (c *Controller) watch() error {
	core := c.Informers.Core().V1()
	return errors.Join(
		c.volumes.AddIndexers(volumeIndexes(c.manages)), c.ReportInformer.AddIndexers(reportIndexes()),
		c.TombstoneInformer.AddIndexers(tombstoneIndexes()), c.pods.AddIndexers(podIndexes(c.nodeOfProvisioner)),
		loop.Watch(c.volumes, c.volumeChanged),
		loop.Watch(core.Nodes().Informer(), func(old, object any) {
			if node, ok := object.(*corev1.Node); ok && nodeDiffers(old, node) {
				c.enqueueIndexed(byNode, node.Name)
				for report := range stowage.StoredPages(c.ReportInformer.GetStore(), node.Name) {
					c.reportChanged(nil, report)
				}
			}
		}),
		loop.Watch(core.PersistentVolumeClaims().Informer(), func(_, object any) {
			if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
				c.enqueueIndexed(byClaim, claim.Namespace+"/"+claim.Name)
			}
		}),
		loop.Watch(c.pods, c.podChanged),
		loop.Watch(c.Informers.Apps().V1().StatefulSets().Informer(), func(_, object any) {
			if accessor, ok := object.(metav1.Object); ok {
				c.enqueueLost(byNamespace, accessor.GetNamespace())
			}
		}),
		loop.Watch(c.Informers.Storage().V1().StorageClasses().Informer(), func(_, _ any) { c.enqueueLost("", "") }),
		loop.Watch(c.ReportInformer, c.reportChanged),
		loop.Watch(c.TombstoneInformer, func(_, object any) {
			if tombstone, ok := object.(*stowage.LocalDiskTombstone); ok {
				c.queue.Add(tombstone.Spec.Volume)
			}
		}),
	)
}

func (c *Controller) volumeChanged(old, object any) {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok {
		return
	}
	c.enqueueSameDisk(old, volume)
	if nodeOf(volume) != "" { // even if it is no longer managed
		c.queue.Add(volume.Name)
	}
	if owned(volume) && volume.Annotations[wellknown.DiskIdentityAnnotation] != "" {
		c.sweeps.Add(tombstonesKey)
	}
}

func (c *Controller) podChanged(old, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	for _, key := range claims.Keys(pod) {
		c.enqueueIndexed(byClaim, key)
	}
	for _, node := range c.nodeOfProvisioner(pod) {
		if provisionerDiffers(old, pod) {
			c.enqueueIndexed(byNode, node)
		}
	}
}

func (c *Controller) enqueueIndexed(index, key string) {
	names, err := c.volumes.GetIndexer().IndexKeys(index, key)
	if err != nil {
		return
	}
	for _, name := range names {
		c.queue.Add(name)
	}
}

// enqueueLost enqueues the volumes that are marked as lost, of a key of an index, or all.
func (c *Controller) enqueueLost(index, key string) {
	for _, volume := range loop.List[corev1.PersistentVolume](c.volumes, index, key) {
		if c.Settings.DryRun || volume.Annotations[wellknown.LostAnnotation] != "" {
			c.queue.Add(volume.Name)
		}
	}
}

// owned reports whether a volume is published by its node's provisioner and has the finalizer.
func owned(volume *corev1.PersistentVolume) bool {
	node := volume.Annotations[wellknown.NodeNameAnnotation]
	return node != "" && localpv.Owned(volume, node) && slices.Contains(volume.Finalizers, wellknown.LocalVolumeFinalizer)
}

// provisioned reports whether a PavProvisioner made a volume on one node. PersistentVolumes are
// written by administrators only.
func provisioned(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[wellknown.PavNodeAnnotation] != "" && volume.Spec.CSI != nil
}

// nodeOf returns the node of a volume; empty if it has no annotation of one.
func nodeOf(volume *corev1.PersistentVolume) string {
	if provisioned(volume) {
		return volume.Annotations[wellknown.PavNodeAnnotation]
	}
	return volume.Annotations[wellknown.NodeNameAnnotation]
}

// manages reports whether the loss of a volume is this controller's concern.
func (c *Controller) manages(volume *corev1.PersistentVolume) bool {
	return owned(volume) || c.PavVolumes != nil && provisioned(volume)
}

// nodeDiffers reports whether a relevant field of a node has changed.
func nodeDiffers(old any, node *corev1.Node) bool {
	before, ok := old.(*corev1.Node)
	return !ok || before.UID != node.UID || readyOf(before) != readyOf(node) || outOfService(before) != outOfService(node)
}

func readyOf(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func outOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// index indexes objects of a type by keys.
func index[T any](keys func(*T) []string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		if found, ok := object.(*T); ok {
			return keys(found), nil
		}
		return nil, nil
	}
}

// volumeIndexes index the volumes that a controller manages.
func volumeIndexes(manages func(*corev1.PersistentVolume) bool) cache.Indexers {
	by := func(key func(*corev1.PersistentVolume) (string, bool)) cache.IndexFunc {
		return index(func(volume *corev1.PersistentVolume) []string {
			if key, ok := key(volume); ok {
				return []string{key}
			}
			return nil
		})
	}
	return cache.Indexers{
		byNode: by(func(v *corev1.PersistentVolume) (string, bool) {
			return nodeOf(v), manages(v)
		}),
		byClaim: by(func(v *corev1.PersistentVolume) (string, bool) {
			claim := ptr.Deref(v.Spec.ClaimRef, corev1.ObjectReference{})
			return claim.Namespace + "/" + claim.Name, manages(v) && v.Spec.ClaimRef != nil
		}),
		byNamespace: by(func(v *corev1.PersistentVolume) (string, bool) {
			return ptr.Deref(v.Spec.ClaimRef, corev1.ObjectReference{}).Namespace, manages(v) && v.Spec.ClaimRef != nil
		}),
		byIdentity: by(func(v *corev1.PersistentVolume) (string, bool) {
			identity := v.Annotations[wellknown.DiskIdentityAnnotation]
			return identity, identity != ""
		}),
		// One key has all that count.
		byRelease: by(func(v *corev1.PersistentVolume) (string, bool) {
			return "", manages(v) && v.Annotations[wellknown.ReleaseAnnotation] != ""
		}),
	}
}

func podIndexes(nodeOfProvisioner func(*corev1.Pod) []string) cache.Indexers {
	return cache.Indexers{byClaim: index(claims.Keys), byProvisioner: index(nodeOfProvisioner)}
}
