// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

// class is what the cache keeps by name of storage class. An entry exists
// while the class does or while volumes carry its name.
type class struct {
	name   string
	object *storagev1.StorageClass // nil: no such object, or not asked for yet
	// allowed is where the class may provision; nil: everywhere.
	allowed *segment
	// labelKeys are those that claims of the class have selected by.
	labelKeys map[string]struct{}
	// pools are the class's, by segment; none is empty.
	pools map[*segment]*pool
	// wide counts the pools that several nodes share. The others are on the
	// shelves of their nodes.
	wide int
}

// classEntry returns the entry of the class, made when there is none.
func (c *Cache) classEntry(name string) *class {
	entry := c.class[name]
	if entry == nil {
		entry = &class{name: name, labelKeys: map[string]struct{}{}, pools: map[*segment]*pool{}}
		c.class[name] = entry
	}
	return entry
}

// forgetClass drops an entry that nothing needs any more.
func (c *Cache) forgetClass(entry *class) {
	if entry.object == nil && len(entry.pools) == 0 {
		delete(c.class, entry.name)
	}
}

// syncClass brings the entry of a class up to the object that a scheduling
// cycle has read, and sees to it that its volumes are indexed by the label keys
// that requests select by. It takes the write lock only when something changes. It
// returns nil for a class that has been deleted or replaced since: nothing would ever
// drop its entry.
func (c *Cache) syncClass(object *storagev1.StorageClass, requests []*match.Request) *class {
	c.mu.RLock()
	entry := c.class[object.Name]
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
	entry = c.classEntry(object.Name)
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
		}
	}
	return entry
}

// maxLabelKeys bounds how many label keys the volumes of a class are indexed
// by. Users choose the keys, and an index costs memory; beyond the bound a
// selector is evaluated volume by volume, once per segment and cycle.
const maxLabelKeys = 16

// indexes tells whether there is nothing to add to the class's label index for
// the requests.
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

// removeClass forgets a class that was deleted. Its volumes stay.
func (c *Cache) removeClass(object *storagev1.StorageClass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.class[object.Name]
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
	c.forgetClass(entry)
}

// inTreePrefix starts the names of provisioners that run in the PV controller,
// or that it hands over to CSI itself.
const inTreePrefix = "kubernetes.io/"

// noProvisioner is the name for "nothing provisions this class".
const noProvisioner = "kubernetes.io/no-provisioner"

// provisions tells whether anything can make volumes of the class.
func provisions(object *storagev1.StorageClass) bool {
	return object.Provisioner != "" && object.Provisioner != noProvisioner
}

// provisionerAnnotation is what the claim's storage-provisioner annotations
// are to say, "" where the PV controller writes them.
func provisionerAnnotation(object *storagev1.StorageClass) string {
	if strings.HasPrefix(object.Provisioner, inTreePrefix) {
		return ""
	}
	return object.Provisioner
}
