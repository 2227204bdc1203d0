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

	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// The indexes: of volumes by node, by claim and by disk, of pods by claim, of agents' pods
// by node, of reports by disk, by disk that is retained and by tombstone.
const (
	byNode     = "stowage-node"
	byAgent    = "stowage-agent"
	byClaim    = "stowage-claim"
	byIdentity = "stowage-identity"
	byRetained = "stowage-retained"
	byStone    = "stowage-tombstone"
	bySpace    = "stowage-namespace"
	byRelease  = "stowage-release"
)

// watch has every event put the names of the volumes that it may matter to into the
// queue.
func (c *Controller) watch() error {
	core := c.Informers.Core().V1()
	err := errors.Join(
		c.volumes.AddIndexers(cache.Indexers{byNode: nodeOfVolume, byClaim: claimOfVolume, byIdentity: identityOfVolume, bySpace: spaceOfVolume, byRelease: released}),
		c.ReportInformer.AddIndexers(cache.Indexers{byIdentity: identitiesOfReport, byRetained: retainedOfReport, byStone: stonesOfReport}),
		c.pods.AddIndexers(cache.Indexers{byClaim: claimsOfPod, byAgent: nodeOfAgent}),
		c.on(c.volumes, c.volumeChanged),
		c.on(core.Nodes().Informer(), func(old, object any) {
			if node, ok := object.(*corev1.Node); ok && nodeDiffers(old, node) {
				c.addIndexed(byNode, node.Name)
				c.addDisks(node.Name)
			}
		}),
		c.on(core.PersistentVolumeClaims().Informer(), func(_, object any) {
			if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
				c.addIndexed(byClaim, claim.Namespace+"/"+claim.Name)
			}
		}),
		c.on(c.pods, c.podChanged),
		c.on(c.Informers.Apps().V1().StatefulSets().Informer(), func(_, object any) {
			if accessor, ok := object.(metav1.Object); ok {
				c.addLost(bySpace, accessor.GetNamespace())
			}
		}),
		c.on(c.Informers.Storage().V1().StorageClasses().Informer(), func(_, _ any) { c.addLost("", "") }),
		c.on(c.ReportInformer, c.reportChanged),
	)
	return err
}

// on has changed called for every event of an informer, with the state before (nil for
// an object that is new) and the last one.
func (c *Controller) on(informer cache.SharedIndexInformer, changed func(old, object any)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { changed(nil, object) },
		UpdateFunc: changed,
		DeleteFunc: func(object any) {
			if deleted, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = deleted.Obj
			}
			changed(nil, object)
		},
	})
	return err
}

func (c *Controller) volumeChanged(old, object any) {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok {
		return
	}
	c.addTwins(old, volume)
	if volume.Annotations[wellknown.NodeNameAnnotation] != "" { // also when it has just ceased to be ours
		c.queue.Add(volume.Name)
	}
	if ours(volume) && volume.Annotations[wellknown.DiskIdentityAnnotation] != "" {
		c.askSweep()
	}
}

func (c *Controller) podChanged(old, object any) {
	keys, _ := claimsOfPod(object)
	for _, key := range keys {
		c.addIndexed(byClaim, key)
	}
	nodes, _ := nodeOfAgent(object)
	for _, node := range nodes {
		if agentDiffers(old, object) {
			c.addIndexed(byNode, node)
		}
	}
}

func (c *Controller) addIndexed(index, key string) {
	names, err := c.volumes.GetIndexer().IndexKeys(index, key)
	if err != nil {
		return // there is no such index, which watch would have told
	}
	for _, name := range names {
		c.queue.Add(name)
	}
}

// addLost adds the volumes that are known to be lost, of a key of an index, or all.
func (c *Controller) addLost(index, key string) {
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

// DryRun says whether nothing is done but telling.
func (c *Controller) DryRun() bool { return c.Settings.DryRun }

// ours says whether a volume is that of a node's agent, and held by our finalizer.
func ours(volume *corev1.PersistentVolume) bool {
	node := volume.Annotations[wellknown.NodeNameAnnotation]
	return node != "" && localpv.Owned(volume, node) && slices.Contains(volume.Finalizers, wellknown.LocalVolumeFinalizer)
}

// nodeDiffers says whether something of a node has changed that matters here.
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
	if volume, ok := object.(*corev1.PersistentVolume); ok && ours(volume) {
		return []string{volume.Annotations[wellknown.NodeNameAnnotation]}, nil
	}
	return nil, nil
}

func claimOfVolume(object any) ([]string, error) {
	if volume, ok := object.(*corev1.PersistentVolume); ok && ours(volume) && volume.Spec.ClaimRef != nil {
		return []string{volume.Spec.ClaimRef.Namespace + "/" + volume.Spec.ClaimRef.Name}, nil
	}
	return nil, nil
}

func spaceOfVolume(object any) ([]string, error) {
	if volume, ok := object.(*corev1.PersistentVolume); ok && ours(volume) && volume.Spec.ClaimRef != nil {
		return []string{volume.Spec.ClaimRef.Namespace}, nil
	}
	return nil, nil
}

// released puts volumes of ours with a release under one key.
func released(object any) ([]string, error) {
	if volume, ok := object.(*corev1.PersistentVolume); ok && ours(volume) && volume.Annotations[wellknown.ReleaseAnnotation] != "" {
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

// claimsOfPod are the claims that a pod uses by name, as namespace/name.
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
