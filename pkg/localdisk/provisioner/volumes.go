// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// The informer's indexes.
const (
	byPath     = "path"
	byIdentity = "identity"
)

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

// asVolume is an informer's object as a volume, also after it was deleted.
func asVolume(object any) (*corev1.PersistentVolume, bool) {
	if deleted, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = deleted.Obj
	}
	volume, ok := object.(*corev1.PersistentVolume)
	return volume, ok
}

// pathOf is the path on the node that an informer's object is about, without doubled
// or trailing slashes; empty if there is none.
func pathOf(object any) string {
	volume, ok := asVolume(object)
	if !ok || localpv.PathOf(volume) == "" {
		return ""
	}
	return path.Clean(localpv.PathOf(volume))
}

func (p *Provisioner) volumeChanged(object any) {
	if volume, ok := asVolume(object); ok {
		p.expects.seen(volume)
	}
	p.queue.Add(pathOf(object))
}

func (p *Provisioner) volumeGone(object any) {
	if volume, ok := asVolume(object); ok {
		p.expects.gone(volume)
		p.removeLinkOf(volume)
	}
	p.queue.Add(pathOf(object))
	poke(p.scanRequests) // its disk may be at another path, and may now be published there
}

// unlink removes the link of a volume that is gone, which it has only if its finalizer was
// removed by hand.
func (p *Provisioner) removeLinkOf(volume *corev1.PersistentVolume) {
	v, ours := p.volumeOf(p.current(), volume)
	if !ours || v.Link == "" {
		return
	}
	if err := p.Fence.RemoveLink(v.Link); err != nil {
		utilruntime.HandleError(fmt.Errorf("remove the link of volume %s, which is gone: %w", v.Name, err))
	}
}

// volumeOf reads an informer's object, if the volume is this node's.
func (p *Provisioner) volumeOf(conf *settings, object any) (disk.Volume, bool) {
	volume, ok := asVolume(object)
	if !ok || !localpv.Owned(volume, p.Node) {
		return disk.Volume{}, false
	}
	v, problem := localpv.VolumeOf(volume, conf.directories)
	v.HostPath = pathOf(volume) // as it is found, and not as somebody wrote it
	return v, problem == nil
}

// at are the node's volumes of a path. The first is the one that counts: one that is
// not being deleted before one that is, then the latest.
func (p *Provisioner) volumesOf(conf *settings, hostPath string) []disk.Volume {
	objects, err := p.volumes.GetIndexer().ByIndex(byPath, hostPath)
	if err != nil {
		return nil
	}
	var found []disk.Volume
	for _, object := range objects {
		if v, ok := p.volumeOf(conf, object); ok {
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
	return found
}

// elsewhere names a volume of another path that offers the disk; empty if none does.
func (p *Provisioner) elsewhere(conf *settings, hostPath string, identity disk.Identity) string {
	objects, err := p.volumes.GetIndexer().ByIndex(byIdentity, string(identity))
	if err != nil {
		return ""
	}
	for _, object := range objects {
		if v, ok := p.volumeOf(conf, object); ok && v.HostPath != hostPath {
			return v.Name
		}
	}
	return ""
}

// shown is the volume as the informer shows it; nil if it does not.
func (p *Provisioner) cachedPV(name string) *corev1.PersistentVolume {
	object, exists, err := p.volumes.GetStore().GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	volume, _ := asVolume(object)
	return volume
}
