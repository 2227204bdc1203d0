// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

// class is what the volume cache keeps for a storage class. An entry exists
// while the class exists or while free volumes have its name.
type class struct {
	name   string
	object *storagev1.StorageClass // nil: no such object, or not used yet
	// allowed is where the class may provision; nil: everywhere.
	allowed *segment
	// labelKeys are those of the selectors of the class's claims.
	labelKeys map[string]struct{}
	// pools are the class's, by segment; none is empty.
	pools map[*segment]*pool
	// all are the volumes of all pools; empty without Config.ByClass.
	all match.Pool
}

// syncClass updates the entry of a class to the object that a scheduling
// cycle has read, and indexes its volumes by the label keys
// of the requests' selectors. It takes the write lock only if something changes. It
// returns nil for a class that was deleted or replaced since: its entry would never be
// dropped.
func (c *Cache) syncClass(object *storagev1.StorageClass, requests []*match.Request) *class {
	c.mu.RLock()
	entry := c.free.class[object.Name]
	current := entry != nil && entry.object == object && entry.indexes(requests)
	c.mu.RUnlock()
	if current {
		return entry
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if stored := c.Class(object.Name); stored == nil || stored.UID != object.UID {
		return nil
	}
	entry = c.free.ensureClass(object.Name)
	if entry.object != object && (entry.object == nil || entry.object.UID != object.UID || newer(object.ResourceVersion, entry.object.ResourceVersion)) {
		c.setAllowed(entry, object)
		entry.object = object
	}
	for _, request := range requests {
		for _, key := range request.LabelKeys() {
			if _, ok := entry.labelKeys[key]; ok || len(entry.labelKeys) == maxLabelKeys {
				continue
			}
			entry.labelKeys[key] = struct{}{}
			for _, p := range entry.pools {
				p.IndexLabel(key)
			}
			entry.all.IndexLabel(key)
		}
	}
	return entry
}

// maxLabelKeys bounds how many label keys the volumes of a class are indexed
// by. Users choose the keys, and an index costs memory; beyond the bound a
// selector is evaluated volume by volume, once per segment and cycle.
const maxLabelKeys = 16

// indexes reports whether the class's label index has all keys of the requests'
// selectors.
func (entry *class) indexes(requests []*match.Request) bool {
	if len(entry.labelKeys) == maxLabelKeys {
		return true
	}
	for _, request := range requests {
		if request.Selector == nil {
			continue
		}
		for _, key := range request.LabelKeys() {
			if _, ok := entry.labelKeys[key]; !ok {
				return false
			}
		}
	}
	return true
}

func (c *Cache) setAllowed(entry *class, object *storagev1.StorageClass) {
	old := entry.allowed
	entry.allowed = nil
	if len(object.AllowedTopologies) > 0 {
		entry.allowed = c.index.Acquire(topology.FromAllowedTopologies(object.AllowedTopologies))
	}
	if old != nil {
		c.index.Release(old)
	}
}

// classDeleted drops the object of a deleted class. Its volumes remain.
func (c *Cache) classDeleted(object *storagev1.StorageClass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.free.class[object.Name]
	if entry == nil || entry.object == nil {
		return
	}
	if stored := c.Class(object.Name); stored != nil && stored.UID == entry.object.UID {
		return
	}
	if entry.allowed != nil {
		c.index.Release(entry.allowed)
	}
	entry.object, entry.allowed = nil, nil
	c.free.dropUnusedClass(entry)
}

// inTreePrefix is the prefix of provisioners that run in the PV controller,
// or that it delegates to CSI.
const inTreePrefix = "kubernetes.io/"

// noProvisioner is the provisioner of classes that nothing provisions.
const noProvisioner = "kubernetes.io/no-provisioner"

// provisions reports whether the class has a provisioner.
func provisions(object *storagev1.StorageClass) bool {
	return object.Provisioner != "" && object.Provisioner != noProvisioner
}

// tracksCapacity reports whether capacity objects bound what is provisioned of the class,
// nil for none. Only drivers that opt in publish capacity (KEP-1472).
func (c *Cache) tracksCapacity(class *storagev1.StorageClass) bool {
	if class == nil || !provisions(class) {
		return false
	}
	driver, err := c.drivers.Get(class.Provisioner)
	return err == nil && driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
}

// provisionerAnnotation is the value for the claim's storage-provisioner annotations,
// "" if the PV controller writes them.
func provisionerAnnotation(object *storagev1.StorageClass) string {
	if strings.HasPrefix(object.Provisioner, inTreePrefix) {
		return ""
	}
	return object.Provisioner
}
