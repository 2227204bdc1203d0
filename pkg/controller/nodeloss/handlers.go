// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/loop"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// Names of the indexes of volumes, pods and reports.
const (
	byNode        = "stowage-node"
	byProvisioner = "stowage-provisioner"
	byClaim       = "stowage-claim"
	byIdentity    = "stowage-identity"
	byRetained    = "stowage-retained"
	byTombstone   = "stowage-tombstone"
	byNamespace   = "stowage-namespace"
	byRelease     = "stowage-release"
)

// watch adds handlers that enqueue the names of the volumes that an event may concern.
func (c *Controller) watch() error {
	core := c.Informers.Core().V1()
	return errors.Join(
		c.volumes.AddIndexers(cache.Indexers{byNode: nodeOfVolume, byClaim: claimOfVolume, byIdentity: identityOfVolume, byNamespace: namespaceOfVolume, byRelease: released}),
		c.ReportInformer.AddIndexers(cache.Indexers{byIdentity: identitiesOfReport, byRetained: retainedOfReport, byTombstone: tombstonesOfReport}),
		c.pods.AddIndexers(cache.Indexers{byClaim: claimsOfPod, byProvisioner: nodeOfProvisioner}),
		on(c.volumes, c.volumeChanged),
		on(core.Nodes().Informer(), func(old, object any) {
			if node, ok := object.(*corev1.Node); ok && nodeDiffers(old, node) {
				c.enqueueIndexed(byNode, node.Name)
				c.enqueueDisksOf(node.Name)
			}
		}),
		on(core.PersistentVolumeClaims().Informer(), func(_, object any) {
			if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
				c.enqueueIndexed(byClaim, claim.Namespace+"/"+claim.Name)
			}
		}),
		on(c.pods, c.podChanged),
		on(c.Informers.Apps().V1().StatefulSets().Informer(), func(_, object any) {
			if accessor, ok := object.(metav1.Object); ok {
				c.enqueueLost(byNamespace, accessor.GetNamespace())
			}
		}),
		on(c.Informers.Storage().V1().StorageClasses().Informer(), func(_, _ any) { c.enqueueLost("", "") }),
		on(c.ReportInformer, c.reportChanged),
	)
}

// on calls changed for every event of an informer; see loop.Handler.
func on(informer cache.SharedIndexInformer, changed func(old, object any)) error {
	_, err := informer.AddEventHandler(loop.Handler(changed))
	return err
}

func (c *Controller) volumeChanged(old, object any) {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok {
		return
	}
	c.enqueueSameDisk(old, volume)
	if volume.Annotations[wellknown.NodeNameAnnotation] != "" { // even if it is no longer owned
		c.queue.Add(volume.Name)
	}
	if owned(volume) && volume.Annotations[wellknown.DiskIdentityAnnotation] != "" {
		c.requestSweep()
	}
}

func (c *Controller) podChanged(old, object any) {
	keys, _ := claimsOfPod(object)
	for _, key := range keys {
		c.enqueueIndexed(byClaim, key)
	}
	nodes, _ := nodeOfProvisioner(object)
	for _, node := range nodes {
		if provisionerDiffers(old, object) {
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
	objects := c.volumes.GetStore().List()
	if index != "" {
		var err error
		if objects, err = c.volumes.GetIndexer().ByIndex(index, key); err != nil {
			return
		}
	}
	for _, object := range objects {
		if volume, ok := object.(*corev1.PersistentVolume); ok && (c.DryRun() || volume.Annotations[wellknown.LostAnnotation] != "") {
			c.queue.Add(volume.Name)
		}
	}
}

// DryRun reports whether the controller only reports what it would do.
func (c *Controller) DryRun() bool { return c.Settings.DryRun }

// owned reports whether a volume is published by its node's provisioner and has the finalizer.
func owned(volume *corev1.PersistentVolume) bool {
	node := volume.Annotations[wellknown.NodeNameAnnotation]
	return node != "" && localpv.Owned(volume, node) && slices.Contains(volume.Finalizers, wellknown.LocalVolumeFinalizer)
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

func nodeOfVolume(object any) ([]string, error) {
	if volume, ok := object.(*corev1.PersistentVolume); ok && owned(volume) {
		return []string{volume.Annotations[wellknown.NodeNameAnnotation]}, nil
	}
	return nil, nil
}

func claimOfVolume(object any) ([]string, error) {
	if volume, ok := object.(*corev1.PersistentVolume); ok && owned(volume) && volume.Spec.ClaimRef != nil {
		return []string{volume.Spec.ClaimRef.Namespace + "/" + volume.Spec.ClaimRef.Name}, nil
	}
	return nil, nil
}

func namespaceOfVolume(object any) ([]string, error) {
	if volume, ok := object.(*corev1.PersistentVolume); ok && owned(volume) && volume.Spec.ClaimRef != nil {
		return []string{volume.Spec.ClaimRef.Namespace}, nil
	}
	return nil, nil
}

// released indexes the owned volumes with a release under one key.
func released(object any) ([]string, error) {
	if volume, ok := object.(*corev1.PersistentVolume); ok && owned(volume) && volume.Annotations[wellknown.ReleaseAnnotation] != "" {
		return []string{""}, nil
	}
	return nil, nil
}

func identityOfVolume(object any) ([]string, error) {
	if volume, ok := object.(*corev1.PersistentVolume); ok && volume.Annotations[wellknown.DiskIdentityAnnotation] != "" {
		return []string{volume.Annotations[wellknown.DiskIdentityAnnotation]}, nil
	}
	return nil, nil
}

// claimsOfPod returns the claims that a pod uses, as namespace/name.
func claimsOfPod(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			keys = append(keys, pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			keys = append(keys, pod.Namespace+"/"+pod.Name+"-"+v.Name)
		}
	}
	return keys, nil
}
