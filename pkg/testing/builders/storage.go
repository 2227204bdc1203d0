// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// noProvisioner is the provisioner of classes whose volumes are made by hand.
const noProvisioner = "kubernetes.io/no-provisioner"

// Class builds a StorageClass.
type Class struct {
	builder[*storagev1.StorageClass, *Class]
}

// MakeClass starts a WaitForFirstConsumer class that cannot provision and
// whose reclaim policy is Delete.
func MakeClass(name string) *Class {
	b := &Class{}
	return b.begin(b, &storagev1.StorageClass{
		TypeMeta:          metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta:        metav1.ObjectMeta{Name: name},
		Provisioner:       noProvisioner,
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		ReclaimPolicy:     new(v1.PersistentVolumeReclaimDelete),
	})
}

// Provisioner names who makes the class's volumes.
func (b *Class) Provisioner(name string) *Class { b.object.Provisioner = name; return b }

// BindingMode sets volumeBindingMode.
func (b *Class) BindingMode(mode storagev1.VolumeBindingMode) *Class {
	b.object.VolumeBindingMode = &mode
	return b
}

// Immediate sets volumeBindingMode to Immediate.
func (b *Class) Immediate() *Class { return b.BindingMode(storagev1.VolumeBindingImmediate) }

// ReclaimPolicy sets reclaimPolicy.
func (b *Class) ReclaimPolicy(p v1.PersistentVolumeReclaimPolicy) *Class {
	b.object.ReclaimPolicy = &p
	return b
}

// AllowedTopology adds one allowedTopologies term of one requirement; terms
// are ORed.
func (b *Class) AllowedTopology(key string, values ...string) *Class {
	b.object.AllowedTopologies = append(b.object.AllowedTopologies, v1.TopologySelectorTerm{
		MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: key, Values: slices.Clone(values)}},
	})
	return b
}

// Capacity builds a CSIStorageCapacity.
type Capacity struct {
	builder[*storagev1.CSIStorageCapacity, *Capacity]
}

// MakeCapacity starts a CSIStorageCapacity of a class, in DefaultNamespace,
// without topology and without any amount.
func MakeCapacity(name, class string) *Capacity {
	b := &Capacity{}
	return b.begin(b, &storagev1.CSIStorageCapacity{
		TypeMeta:         metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIStorageCapacity"},
		ObjectMeta:       metav1.ObjectMeta{Namespace: DefaultNamespace, Name: name},
		StorageClassName: class,
	})
}

// Class sets storageClassName.
func (b *Capacity) Class(name string) *Capacity { b.object.StorageClassName = name; return b }

// Capacity sets capacity, such as "100Gi".
func (b *Capacity) Capacity(quantity string) *Capacity {
	b.object.Capacity = new(resource.MustParse(quantity))
	return b
}

// Max sets maximumVolumeSize.
func (b *Capacity) Max(quantity string) *Capacity {
	b.object.MaximumVolumeSize = new(resource.MustParse(quantity))
	return b
}

// Topology sets nodeTopology as it is, nil included.
func (b *Capacity) Topology(selector *metav1.LabelSelector) *Capacity {
	b.object.NodeTopology = selector.DeepCopy()
	return b
}

// Everywhere makes the capacity reachable from every node.
func (b *Capacity) Everywhere() *Capacity { return b.Topology(&metav1.LabelSelector{}) }

// TopologyLabel restricts the capacity to nodes with this label.
func (b *Capacity) TopologyLabel(key, value string) *Capacity {
	if b.object.NodeTopology == nil {
		b.object.NodeTopology = &metav1.LabelSelector{}
	}
	metav1.AddLabelToSelector(b.object.NodeTopology, key, value)
	return b
}

// Hostname restricts the capacity to the node with this hostname label.
func (b *Capacity) Hostname(name string) *Capacity { return b.TopologyLabel(v1.LabelHostname, name) }

// Zone restricts the capacity to the nodes of this zone.
func (b *Capacity) Zone(zone string) *Capacity { return b.TopologyLabel(v1.LabelTopologyZone, zone) }

// CSIDriver builds a CSIDriver.
type CSIDriver struct {
	builder[*storagev1.CSIDriver, *CSIDriver]
}

// MakeCSIDriver starts a driver without storageCapacity.
func MakeCSIDriver(name string) *CSIDriver {
	b := &CSIDriver{}
	return b.begin(b, &storagev1.CSIDriver{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	})
}

// StorageCapacity sets whether the driver publishes CSIStorageCapacity.
func (b *CSIDriver) StorageCapacity(tracked bool) *CSIDriver {
	b.object.Spec.StorageCapacity = &tracked
	return b
}
