// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package capacities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/pav/render"
	"stowage.dev/stowage/pkg/scheduling/claims"
)

// maxCounted limits the UIDs in the annotation pav-counted. A tenant who has more volumes made on
// one node at once waits until their PersistentVolumes exist.
const maxCounted = 500

// reconcileNode publishes the capacity of a node.
func (c *Controller) reconcileNode(ctx context.Context, key string) error {
	name, node := splitKey(key)
	p, spec, err := c.provisioner(name)
	if err != nil {
		return err
	}
	var want []*storagev1.CSIStorageCapacity
	switch {
	case p != nil && spec == nil:
		return nil // the revision is not in the informer yet
	case p != nil && spec.StorageCapacity == nil:
		driver, err := steps.Found(c.drivers.Get(name))
		if err != nil {
			return fmt.Errorf("get CSIDriver %s from the informer: %w", name, err)
		}
		if driver != nil && driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity {
			return nil // no claim could be placed without the objects
		}
	case p != nil:
		var problem string
		if want, problem, err = c.wanted(p, spec, node); err != nil {
			return err
		}
		if c.published.note(name, node, problem) {
			c.provisionersQueue.Add(name)
		}
	}
	return steps.Stale(c.write(ctx, loop.List[storagev1.CSIStorageCapacity](c.capacities, byNode, key), want))
}

// wanted returns the capacities of a node that should exist, one for each class; or none, and why a
// node has none, for users.
func (c *Controller) wanted(p *stowage.PavProvisioner, spec *stowage.PavProvisionerSpec, name string) (all []*storagev1.CSIStorageCapacity, problem string, err error) {
	node, err := steps.Found(c.nodes.Get(name))
	if err != nil || node == nil {
		return nil, "", steps.Wrap(err, "get node %s from the informer", name)
	}
	object, err := steps.Unstructured(node, "Node", "v1")
	if err != nil {
		return nil, "", err
	}
	total, err := render.StorageCapacity(spec, object)
	if err != nil {
		return nil, err.Error(), nil //nolint:nilerr // for users
	}
	hostname := node.Labels[corev1.LabelHostname]
	switch {
	case total == 0:
		return nil, "", nil
	case hostname == "":
		return nil, "it has no label " + corev1.LabelHostname, nil
	}
	used, counted, err := c.used(p.Name, name)
	if err != nil {
		return nil, "", err
	}
	classes, err := c.classes.List(labels.Everything())
	if err != nil {
		return nil, "", fmt.Errorf("list StorageClasses: %w", err)
	}
	for _, class := range classes {
		if class.Provisioner != p.Name || !claims.LateBinding(class) {
			continue
		}
		annotations := map[string]string{wellknown.PavNodeAnnotation: name}
		if len(counted) > 0 {
			annotations[wellknown.PavCountedAnnotation] = strings.Join(counted, ",")
		}
		all = append(all, &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{
				Name: objectName(p.Name, class.Name, name), Namespace: c.Namespace,
				Labels: map[string]string{wellknown.PavProvisionerLabel: p.Name}, Annotations: annotations,
				OwnerReferences: []metav1.OwnerReference{steps.Owner(p, "PavProvisioner")},
			},
			NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: hostname}},
			StorageClassName: class.Name,
			Capacity:         resource.NewQuantity(max(0, total-used), resource.BinarySI),
		})
	}
	return all, "", nil
}

// objectName is the name of a CSIStorageCapacity.
func objectName(provisioner, class, node string) string {
	hash := sha256.Sum256([]byte(provisioner + "/" + class + "/" + node))
	return "pav-" + hex.EncodeToString(hash[:16])
}

// used returns the bytes that the volumes of a provisioner use on a node, and the UIDs of the
// claims of those that are being made.
func (c *Controller) used(provisioner, node string) (used int64, counted []string, err error) {
	for _, volume := range loop.List[stowage.PavVolume](c.Volumes, steps.ByNode, node) {
		if volume.Spec.Provisioner != provisioner {
			continue
		}
		bytes, err := rules.Usage(volume, c.claimOf(volume))
		if err != nil {
			return 0, nil, err
		}
		if used += min(bytes, math.MaxInt64-used); bytes > 0 && rules.Making(volume) {
			counted = append(counted, string(volume.Spec.ClaimRef.UID))
		}
	}
	slices.Sort(counted)
	return used, counted[:min(len(counted), maxCounted)], nil
}

// claimOf returns the claim that a volume is made for; nil if it does not exist.
func (c *Controller) claimOf(volume *stowage.PavVolume) *corev1.PersistentVolumeClaim {
	ref := volume.Spec.ClaimRef
	object, exists, err := c.Claims.GetStore().GetByKey(ref.Namespace + "/" + ref.Name)
	claim, ok := object.(*corev1.PersistentVolumeClaim)
	if err != nil || !exists || !ok || claim.UID != ref.UID {
		return nil
	}
	return claim
}

// write makes the capacities of a node those that are wanted.
func (c *Controller) write(ctx context.Context, have, want []*storagev1.CSIStorageCapacity) error {
	capacities := c.Client.StorageV1().CSIStorageCapacities(c.Namespace)
	left := map[string]*storagev1.CSIStorageCapacity{}
	for _, one := range want {
		left[one.Name] = one
	}
	var errs []error
	for _, one := range have {
		wanted := left[one.Name]
		delete(left, one.Name)
		var err error
		switch {
		case wanted == nil || !sameKind(one, wanted):
			err = steps.Gone(capacities.Delete(ctx, one.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &one.UID}}))
		case !one.Capacity.Equal(*wanted.Capacity) || !equality.Semantic.DeepEqual(one.Annotations, wanted.Annotations):
			changed := one.DeepCopy()
			changed.Capacity, changed.MaximumVolumeSize, changed.Annotations = wanted.Capacity, nil, wanted.Annotations
			_, err = capacities.Update(ctx, changed, metav1.UpdateOptions{})
		}
		errs = append(errs, steps.Wrap(err, "write CSIStorageCapacity %s/%s", one.Namespace, one.Name))
	}
	for _, one := range left {
		_, err := capacities.Create(ctx, one, metav1.CreateOptions{})
		errs = append(errs, steps.Wrap(err, "create CSIStorageCapacity %s/%s", one.Namespace, one.Name))
	}
	return errors.Join(errs...)
}

// sameKind reports whether two capacities are of the same class, node and provisioner, of which class
// and node are immutable. The event of a deletion leads to the creation of another one.
func sameKind(one, wanted *storagev1.CSIStorageCapacity) bool {
	return one.StorageClassName == wanted.StorageClassName && one.Capacity != nil &&
		equality.Semantic.DeepEqual(one.NodeTopology, wanted.NodeTopology) && equality.Semantic.DeepEqual(one.OwnerReferences, wanted.OwnerReferences) &&
		equality.Semantic.DeepEqual(one.Labels, wanted.Labels)
}
