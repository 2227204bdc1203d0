// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/perf/benchfmt"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/source"
	"stowage.dev/stowage/test/provisioners"
)

// settings of the controller release the claims of all lost volumes at once.
const settings = `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
healthAddress: "127.0.0.1:0"
nodeLoss: {policy: Release, delay: 1s, releasesPerMinute: 10000}
leaderElection: {leaderElect: false}
`

const (
	// lost is how many of the nodes are lost.
	lost = 20
	// claimsPerNode, with a pod each. The other volumes have no claim.
	claimsPerNode = 5
	capacity      = "100Gi"
	namespace     = builders.DefaultNamespace
	// idle is how long the idle controller is measured.
	idle = 30 * time.Second
)

// owners is a cluster whose nodes, reports, volumes, claims, StatefulSets and pods are objects
// without controllers; it acts as PersistentVolume controller as far as required.
type owners struct {
	client  kubernetes.Interface
	reports *diskreports.Client
	left    int // nodes
	// volumes and claims are the informers' stores.
	volumes, claims cache.Store
	changes         await.Changes
}

// controller measures stowage-controller, when idle and while nodes are lost.
func (b *bench) controller(ctx context.Context, _ *parts.Run) (measured figures.Set, err error) {
	binary, err := cluster.BuildCommand(ctx, cluster.BuildOptions{Progress: os.Stderr}, "stowage.dev/stowage/cmd/controller")
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Binaries: b.binaries, NoKwok: true, ControllerManager: cluster.ControllerManagerConfig{Disabled: true},
		// No controller would remove the finalizers of used claims and volumes.
		APIServer: cluster.APIServerConfig{DisableAdmission: []string{"ServiceAccount", "StorageObjectInUseProtection"}},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	s := &owners{client: c.Client(), left: nodes}
	if err := s.watch(ctx, c); err != nil {
		return nil, err
	}
	parts.Progress("%d nodes with all they have", nodes)
	if err := s.fill(ctx); err != nil {
		return nil, err
	}
	config := filepath.Join(c.Folder(), "controller.yaml")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	process, err := c.StartCommand("controller", binary, []string{"--config=" + config, "--kubeconfig=" + c.Kubeconfig()}, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, process.Kill()) }()
	return parts.Rounds(1, []string{"start", "rest", "loss"}, func(_ int, phase string) (*benchfmt.Result, error) {
		used, seconds, err := source.During(process, map[string]func() error{
			// Its caches are filled once it has handled the last node.
			"start": func() error { return s.lose(ctx, nodes-1, 1) },
			"rest":  func() error { return parts.Pass(ctx, idle) },
			"loss":  func() error { return s.lose(ctx, 0, lost) },
		}[phase])
		return figures.Line("Controller/phase="+phase, 1, figures.Value{Value: seconds, Unit: "sec"}, figures.Value{Value: used.CPU, Unit: "cpu-sec"},
			figures.Value{Value: float64(used.RSS), Unit: "rss-B"}, figures.Value{Value: float64(used.Peak), Unit: "peak-B"}), err
	})
}

var fastDisks = builders.MakeClass("fast-disks").Obj()

func setName(n int) string      { return fmt.Sprintf("set-%d", n) }
func claimName(n, i int) string { return fmt.Sprintf("data-%s-%d", setName(n), i) }
func volumeName(n, i int) string {
	return localpv.Name(nodeName(n), request(n, i).Disk.Key, localpv.FirstGeneration)
}

// request is a provisioner's request for a volume.
func request(n, i int) localpv.Request {
	return provisioners.Request(nodeName(n), fastDisks.Name, fmt.Sprintf("disk-%d", i), fmt.Sprintf("wwn:%08d%08d", n, i))
}

// watch makes the kinds of reports and tombstones, and watches volumes and claims until ctx ends.
func (s *owners) watch(ctx context.Context, c *cluster.Cluster) (err error) {
	if err := c.CreateFiles(ctx, "manifests/crd/stowage.dev_localdiskreports.yaml", "manifests/crd/stowage.dev_localdisktombstones.yaml"); err != nil {
		return fmt.Errorf("run this from the top of the repository: %w", err)
	}
	if s.reports, err = diskreports.NewClient(c.RESTConfig()); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(s.client, 0)
	volumes, claims := factory.Core().V1().PersistentVolumes().Informer(), factory.Core().V1().PersistentVolumeClaims().Informer()
	s.volumes, s.claims = volumes.GetStore(), claims.GetStore()
	for _, informer := range []cache.SharedIndexInformer{volumes, claims} {
		if _, err := informer.AddEventHandler(s.changes.Handler()); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	return nil
}

// fill makes nodes, and what each of them has.
func (s *owners) fill(ctx context.Context) error {
	if _, err := s.client.StorageV1().StorageClasses().Create(ctx, fastDisks, metav1.CreateOptions{}); err != nil {
		return err
	}
	return await.Each(ctx, nodes, func(ctx context.Context, n int) error {
		if _, err := s.client.CoreV1().Nodes().Create(ctx, builders.MakeNode(nodeName(n)).Obj(), metav1.CreateOptions{}); err != nil {
			return err
		}
		set, err := s.client.AppsV1().StatefulSets(namespace).Create(ctx, setOf(n), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		for i := range volumesPerNode {
			if err := s.volume(ctx, set, n, i); err != nil {
				return err
			}
		}
		return s.report(ctx, n)
	})
}

// setOf is a StatefulSet that has all of its pods on one node.
func setOf(n int) *appsv1.StatefulSet {
	labels := map[string]string{"app": setName(n)}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: setName(n)},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(claimsPerNode)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: builders.MakePod("").Obj().Spec},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*builders.MakePVC("data").Class(fastDisks.Name).Request(capacity).Obj()},
		},
	}
}

// volume makes a volume, and its claim and pod if it has any.
func (s *owners) volume(ctx context.Context, set *appsv1.StatefulSet, n, i int) error {
	volume, problem := localpv.Volume(request(n, i))
	if problem != nil {
		return problem
	}
	core, claimed, phase := s.client.CoreV1(), i < claimsPerNode, corev1.VolumeAvailable
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	if claimed {
		claim := builders.MakePVC(claimName(n, i)).Label("app", set.Name).Class(fastDisks.Name).Request(capacity).VolumeName(volume.Name).Obj()
		claim, err := core.PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: claim.Name, UID: claim.UID}
		phase = corev1.VolumeBound
	}
	if _, err := core.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.phase(ctx, volume.Name, phase); err != nil || !claimed {
		return err
	}
	pod := builders.MakePod(fmt.Sprintf("%s-%d", set.Name, i)).Label("app", set.Name).Node(nodeName(n)).PVC(claimName(n, i)).Obj()
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	_, err := core.Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// phase does as the PersistentVolume controller would.
func (s *owners) phase(ctx context.Context, volume string, phase corev1.PersistentVolumePhase) error {
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase)
	_, err := s.client.CoreV1().PersistentVolumes().Patch(ctx, volume, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// report makes a node's report, with an entry for each volume.
func (s *owners) report(ctx context.Context, n int) error {
	report, err := s.reports.Create(ctx, &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(n)}, Spec: stowage.LocalDiskReportSpec{NodeName: nodeName(n), Page: 1},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for i := range volumesPerNode {
		state := stowage.EntryAvailable
		if i < claimsPerNode {
			state = stowage.EntryBound
		}
		d := request(n, i).Disk
		report.Status.Entries = append(report.Status.Entries, stowage.Entry{
			Class: d.Key.Class, Name: d.Key.Name, Path: d.HostPath, State: state, Volume: volumeName(n, i),
			Identity: string(d.Identity), Kind: "Mount", Mode: "Filesystem", Bytes: d.Bytes,
		})
	}
	_, err = s.reports.UpdateStatus(ctx, report, metav1.UpdateOptions{})
	return err
}

// lose deletes this number of nodes from the first on, and returns when all of their volumes have
// been removed.
func (s *owners) lose(ctx context.Context, first, nodes int) error {
	err := await.Each(ctx, nodes, func(ctx context.Context, n int) error {
		return s.client.CoreV1().Nodes().Delete(ctx, nodeName(first+n), metav1.DeleteOptions{})
	})
	if err != nil {
		return err
	}
	s.left -= nodes
	if err := s.changes.Wait(ctx, waitLimit, "the claims to be deleted", func() bool { return len(s.claims.ListKeys()) == s.left*claimsPerNode }); err != nil {
		return err
	}
	err = await.Each(ctx, nodes*claimsPerNode, func(ctx context.Context, i int) error {
		return s.phase(ctx, volumeName(first+i/claimsPerNode, i%claimsPerNode), corev1.VolumeReleased)
	})
	if err != nil {
		return err
	}
	return s.changes.Wait(ctx, waitLimit, "the volumes to be removed", func() bool { return len(s.volumes.ListKeys()) == s.left*volumesPerNode })
}
