// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
)

const (
	// boundPerNode is how many volumes of a node are bound to the claim of a pod on it.
	boundPerNode = 6
	// waitingPod has two claims, for which all free volumes are too small, and waitingFull two of a class without a
	// free volume.
	waitingPod, waitingFull = "waiting", "waiting-full"
	fullClass               = "full"
	imagesPerNode           = 40
)

// fillInspected makes the objects that the commands of kubectl-stowage read. Their managed fields are those of the API
// server.
func (s *setup) fillInspected(ctx context.Context) error {
	s.progress("%d nodes with %d volumes, %d claims and pods, and a report each", s.workload.Nodes, s.workload.VolumesPerNode, boundPerNode)
	if err := s.cluster.CreateFiles(ctx, "manifests/crd/stowage.dev_localdiskreports.yaml"); err != nil {
		return fmt.Errorf("run this from the top of the repository: %w", err)
	}
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, name := range []string{class, fullClass} {
		if _, err := s.client.StorageV1().StorageClasses().Create(ctx, builders.MakeClass(name).Obj(), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	nodes := cluster.NodeSet{Count: s.workload.Nodes, Zones: []string{"zone-a", "zone-b", "zone-c"}}.Nodes()
	for _, n := range nodes {
		for i := range imagesPerNode {
			name := fmt.Sprintf("registry.example.com/team-%d/image", i)
			n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{fmt.Sprintf("%s@sha256:%064d", name, i), name + ":v1.2.3"}, SizeBytes: 100 << 20})
		}
	}
	if err := s.cluster.AddNodes(ctx, nodes...); err != nil {
		return err
	}
	config := s.cluster.RESTConfig()
	config.QPS = -1
	reports, err := diskreports.NewClient(config)
	if err != nil {
		return err
	}
	if err := await.Each(ctx, s.workload.Nodes, func(ctx context.Context, n int) error { return s.fillNode(ctx, n, reports) }); err != nil {
		return err
	}
	return s.makeWaiting(ctx)
}

// fillNode makes what a node has. Its volumes are of both classes in turn: those of fullClass are all bound.
func (s *setup) fillNode(ctx context.Context, n int, reports *diskreports.Client) error {
	report := &stowage.LocalDiskReport{ObjectMeta: metav1.ObjectMeta{Name: nodeName(n)}, Spec: stowage.LocalDiskReportSpec{NodeName: nodeName(n), Page: 1}}
	var entries []stowage.Entry
	for i := range s.workload.VolumesPerNode {
		pv := builders.MakePV(fmt.Sprintf("pv-%d-%d", n, i)).Class(class).Capacity(volumeSize).Hostname(nodeName(n)).
			ReclaimPolicy(v1.PersistentVolumeReclaimDelete).Phase(v1.VolumeAvailable)
		state := stowage.EntryAvailable
		if i < boundPerNode {
			of := class
			if i%2 == 0 {
				of = fullClass
			}
			state = stowage.EntryBound
			if err := s.makeUsed(ctx, n, i, pv.Class(of).Phase(v1.VolumeBound)); err != nil {
				return err
			}
		}
		volume := pv.Obj()
		made, err := s.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		made.Status = volume.Status
		if _, err := s.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
		entries = append(entries, stowage.Entry{
			Class: volume.Spec.StorageClassName, Name: fmt.Sprintf("disk-%d", i), Path: fmt.Sprintf("/mnt/local/disk-%d", i), State: state, Volume: volume.Name, Bytes: 100 << 30,
			Kind: "Mount", Mode: "Filesystem", Identity: fmt.Sprintf("fs:9b1d2f30-55aa-4c1e-8a77-%012d:/@6f1c2b9d0e8a4f73", n*s.workload.VolumesPerNode+i), Since: new(metav1.Now()),
		})
	}
	made, err := reports.Create(ctx, report, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status.Entries = entries
	_, err = reports.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// makeUsed makes a running pod and its claim, and binds a volume that is not created yet to the claim.
func (s *setup) makeUsed(ctx context.Context, n, i int, pv *builders.PV) error {
	core, name := s.client.CoreV1(), fmt.Sprintf("pod-%d-%d", n, i)
	claim := builders.MakePVC("data-" + name).Namespace(namespace).Class(pv.Obj().Spec.StorageClassName).Request(claimSize).Bound(pv.Obj().Name).Obj()
	made, err := core.PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pv.ClaimRef(namespace, claim.Name, string(made.UID))
	made.Status = claim.Status
	if _, err := core.PersistentVolumeClaims(namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	pod := builders.MakePod(name).Namespace(namespace).Node(nodeName(n)).Requests("1", "4Gi").PVC(claim.Name).
		Label("app.kubernetes.io/name", "database").Label("app.kubernetes.io/instance", name).Annotation("checksum/config", strings.Repeat("0123456789abcdef", 4)).Obj()
	container := &pod.Spec.Containers[0]
	for e := range 20 {
		container.Env = append(container.Env, v1.EnvVar{Name: fmt.Sprintf("DATABASE_OPTION_%d", e), Value: "the value of the option"})
	}
	running, err := core.Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	now := metav1.NewTime(time.Now())
	running.Status = v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}}, HostIP: "10.1.0.1", StartTime: &now, ContainerStatuses: []v1.ContainerStatus{{
		Name: container.Name, Ready: true, Started: new(true), Image: "registry.example.com/team/database:v1", ImageID: "registry.example.com/team/database@sha256:" + strings.Repeat("0", 64),
		ContainerID: "containerd://" + strings.Repeat("0", 64), State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}},
	}}}
	for _, condition := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled} {
		running.Status.Conditions = append(running.Status.Conditions, v1.PodCondition{Type: condition, Status: v1.ConditionTrue, LastTransitionTime: now})
	}
	_, err = core.Pods(namespace).UpdateStatus(ctx, running, metav1.UpdateOptions{})
	return err
}

// makeWaiting makes pods that fit no node, which are to be spread over zones.
func (s *setup) makeWaiting(ctx context.Context) error {
	for name, ofClass := range map[string]string{waitingPod: class, waitingFull: fullClass} {
		pod := builders.MakePod(name).Namespace(namespace).SchedulerName("stowage-scheduler").Requests("1", "4Gi").Label("app", name)
		for _, claim := range []string{"data-" + name, "log-" + name} {
			c := builders.MakePVC(claim).Namespace(namespace).Class(ofClass).Request(tooLarge).Obj()
			if _, err := s.client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, c, metav1.CreateOptions{}); err != nil {
				return err
			}
			pod.PVC(claim)
		}
		pod.Change(func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			}}
		})
		if _, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod.Obj(), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
