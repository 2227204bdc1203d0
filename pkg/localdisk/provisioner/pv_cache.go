// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"cmp"
	"errors"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/loop"
)

// The informer's indexes.
const (
	byPath     = "path"
	byIdentity = "identity"
)

// pvCache is the informer of the node's volumes.
type pvCache struct {
	cache.SharedIndexInformer
	node string
}

func newPVCache(client kubernetes.Interface, node string) (*pvCache, error) {
	own := informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = localpv.Selector(node) })
	informer := informers.NewSharedInformerFactoryWithOptions(client, 0, own).Core().V1().PersistentVolumes().Informer()
	return &pvCache{informer, node}, errors.Join(
		informer.SetTransform(loop.WithoutManagedFields),
		informer.AddIndexers(cache.Indexers{byPath: pathOfVolume, byIdentity: identityOfVolume}),
	)
}

func pathOfVolume(object any) ([]string, error) {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || volume.Spec.Local == nil {
		return nil, nil
	}
	return []string{pathOf(volume)}, nil
}

func identityOfVolume(object any) ([]string, error) {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || volume.Annotations[wellknown.DiskIdentityAnnotation] == "" {
		return nil, nil
	}
	return []string{volume.Annotations[wellknown.DiskIdentityAnnotation]}, nil
}

// asVolume returns an informer's object as a volume, also after its deletion.
func asVolume(object any) (*corev1.PersistentVolume, bool) {
	if deleted, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = deleted.Obj
	}
	volume, ok := object.(*corev1.PersistentVolume)
	return volume, ok
}

// pathOf returns the path on the node of an informer's object, without doubled or trailing
// slashes; empty if there is none.
func pathOf(object any) string {
	volume, ok := asVolume(object)
	if !ok || localpv.PathOf(volume) == "" {
		return ""
	}
	return path.Clean(localpv.PathOf(volume))
}

// read reads an informer's object. It returns false if the volume is not this node's.
func (c *pvCache) read(conf *settings, object any) (disk.Volume, bool) {
	volume, ok := asVolume(object)
	if !ok || !localpv.Owned(volume, c.node) {
		return disk.Volume{}, false
	}
	v, problem := localpv.VolumeOf(volume, conf.directories)
	v.HostPath = pathOf(volume) // cleaned, as paths are compared
	return v, problem == nil
}

// at returns the node's volumes of a path, and those of other paths that offer the disk at the
// path. Decisions are about the first volume: one that is not being deleted is before one that is,
// then the latest is first.
func (c *pvCache) at(conf *settings, hostPath string, fact *disk.Fact) (found, elsewhere []disk.Volume) {
	for _, pv := range c.objectsAt(hostPath) {
		if v, ok := c.read(conf, pv); ok {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(x, y disk.Volume) int {
		if x.Deleting != y.Deleting {
			if x.Deleting {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(y.Generation, x.Generation), cmp.Compare(x.Name, y.Name))
	})
	if fact == nil || fact.Identity == "" {
		return found, nil
	}
	objects, err := c.GetIndexer().ByIndex(byIdentity, string(fact.Identity))
	if err != nil {
		return found, nil
	}
	for _, object := range objects {
		if v, ok := c.read(conf, object); ok && v.HostPath != hostPath {
			elsewhere = append(elsewhere, v)
		}
	}
	return found, elsewhere
}

// objectsAt returns the volumes of a path as they are.
func (c *pvCache) objectsAt(hostPath string) []*corev1.PersistentVolume {
	objects, err := c.GetIndexer().ByIndex(byPath, hostPath)
	if err != nil {
		return nil
	}
	var found []*corev1.PersistentVolume
	for _, object := range objects {
		if volume, ok := asVolume(object); ok {
			found = append(found, volume)
		}
	}
	return found
}

// get returns a volume as the informer shows it; nil if it does not.
func (c *pvCache) get(name string) *corev1.PersistentVolume {
	object, exists, err := c.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	volume, _ := asVolume(object)
	return volume
}
