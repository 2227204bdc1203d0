// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/external"
)

const (
	namespace   = "bench"
	class       = "local" // of all claims
	volumeSize  = "100Gi"
	claimSize   = "50Gi"
	tooLarge    = "1Ti" // fits no volume and no node
	smallest    = 51200 // MiB, of a volume where all have different sizes: claimSize
	parallelism = 64    // requests at a time while objects are made
)

// claimKind is what pods' claims are like when the load begins.
type claimKind int

const (
	unboundClaims     claimKind = iota // of the class, for volumes that exist
	noClaims                           // the pods have none
	boundClaims                        // to a volume each
	claimsTooLarge                     // no volume is large enough
	claimsToProvision                  // no volumes, but a provisioner
)

func nodeName(n int) string { return fmt.Sprintf("node-%d", n) }

// makeStorage makes the nodes, the class and the volumes.
func (s *setup) makeStorage(ctx context.Context) error {
	s.progress("%d nodes, %d volumes", s.workload.Nodes, s.workload.Nodes*s.workload.VolumesPerNode)
	if err := s.cluster.AddNodes(ctx, cluster.NodeSet{Count: s.workload.Nodes}.Nodes()...); err != nil {
		return err
	}
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	if s.workload.claims == claimsToProvision {
		return s.makeCapacity(ctx)
	}
	if _, err := s.client.StorageV1().StorageClasses().Create(ctx, builders.MakeClass(class).Obj(), metav1.CreateOptions{}); err != nil {
		return err
	}
	return await.Each(ctx, s.workload.Nodes*s.workload.VolumesPerNode, func(ctx context.Context, i int) error {
		return s.makeVolume(ctx, s.volume(i))
	})
}

// findVolumes reads the volumes that makeStorage made.
func (s *setup) findVolumes(ctx context.Context) error {
	if s.workload.claims == claimsToProvision {
		return nil
	}
	list, err := s.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	byName := make(map[string]*v1.PersistentVolume, len(list.Items))
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	s.volumes = make([]*v1.PersistentVolume, s.workload.Nodes*s.workload.VolumesPerNode)
	for i := range s.volumes {
		if s.volumes[i] = byName[s.volumeName(i)]; s.volumes[i] == nil {
			return fmt.Errorf("volume %s was not prepared", s.volumeName(i))
		}
	}
	return nil
}

func (s *setup) volumeName(i int) string {
	return fmt.Sprintf("pv-%d-%d", i%s.workload.Nodes, i/s.workload.Nodes)
}

// volume i is on node i modulo the number of nodes, so that consecutive ones
// are on different nodes.
func (s *setup) volume(i int) *v1.PersistentVolume {
	pv := builders.MakePV(s.volumeName(i)).Class(class).Capacity(volumeSize).Hostname(nodeName(i % s.workload.Nodes))
	if s.workload.claimsOnly {
		pv.Capacity(fmt.Sprintf("%dMi", smallest+i))
	}
	return pv.Obj()
}

// makeVolume also makes it Available, as the PV controller would.
func (s *setup) makeVolume(ctx context.Context, pv *v1.PersistentVolume) error {
	made, err := s.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status.Phase = v1.VolumeAvailable
	_, err = s.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

func claimName(pod string, i int) string { return fmt.Sprintf("%s-claim-%d", pod, i) }

// makePods makes the claims of pods called PREFIX-0 and so on, and returns the
// pods, which are yet to be created.
func (s *setup) makePods(ctx context.Context, prefix string, count int) ([]*v1.Pod, error) {
	pods := make([]*v1.Pod, count)
	err := await.Each(ctx, count, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("%s-%d", prefix, i)
		pod := builders.MakePod(name).Namespace(namespace).SchedulerName(v1.DefaultSchedulerName).Requests("10m", "10Mi")
		if s.workload.claims != noClaims {
			for c := range s.workload.ClaimsPerPod {
				if err := s.makeClaim(ctx, claimName(name, c)); err != nil {
					return err
				}
				pod.PVC(claimName(name, c))
			}
		}
		pods[i] = pod.Obj()
		return nil
	})
	return pods, err
}

func (s *setup) makeClaim(ctx context.Context, name string) error {
	size := claimSize
	if s.workload.claims == claimsTooLarge {
		size = tooLarge
	}
	claim := builders.MakePVC(name).Namespace(namespace).Class(class).Request(size)
	if s.arm == BindNow {
		claim.Annotation(wellknown.BindAnnotation, wellknown.BindNow)
	}
	made, err := s.client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim.Obj(), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.claims[name] = made
	s.mu.Unlock()
	if s.workload.claims != boundClaims {
		return nil
	}
	return s.bind(ctx, name, s.volumes[int(s.nextVolume.Add(1))-1])
}

// makeCapacity announces, for each node, a node's own storage of a driver.
func (s *setup) makeCapacity(ctx context.Context) error {
	driver := builders.MakeCSIDriver(provisionerName).StorageCapacity(true).Obj()
	if _, err := s.client.StorageV1().CSIDrivers().Create(ctx, driver, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := s.client.StorageV1().StorageClasses().Create(ctx, builders.MakeClass(class).Provisioner(provisionerName).Obj(), metav1.CreateOptions{}); err != nil {
		return err
	}
	return await.Each(ctx, s.workload.Nodes, func(ctx context.Context, n int) error {
		c := builders.MakeCapacity(fmt.Sprintf("capacity-%d", n), class).Namespace(namespace).Hostname(nodeName(n)).Capacity(tooLarge).Obj()
		_, err := s.client.StorageV1().CSIStorageCapacities(namespace).Create(ctx, c, metav1.CreateOptions{})
		return err
	})
}

// givenTwice counts volumes that two claims name, and claims that are bound to
// a volume that does not name them.
func (s *setup) givenTwice(ctx context.Context) (int, error) {
	claims, claimsErr := s.client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	volumes, volumesErr := s.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err := errors.Join(claimsErr, volumesErr); err != nil {
		return 0, err
	}
	return len(cluster.Misbound(claims.Items, volumes.Items)), nil
}

const provisionerName = "instant.bench.example"

// startProvisioner serves the class, by node, until the setup is closed.
func (s *setup) startProvisioner(ctx context.Context) {
	loop := external.Provisioner{Client: s.client, Name: provisionerName, Label: v1.LabelHostname}.Controller(ctx, controller.Threadiness(parallelism))
	s.background(ctx, loop.Run)
}
