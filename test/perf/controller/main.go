// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Controller measures the CPU and memory of stowage-controller on a large cluster, when idle
// and while nodes are lost:
//
//	go run ./test/perf/controller -nodes 1000 -lost 20
//
// It runs an etcd, a kube-apiserver and the controller, from the top of the repository. Nodes,
// reports, volumes, claims, StatefulSets and pods are objects without controllers; the program
// acts as PersistentVolume controller as far as required.
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

// settings release the claims of all lost volumes at once.
const settings = `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
healthAddress: "127.0.0.1:0"
nodeLoss: {policy: Release, delay: 1s, releasesPerMinute: 10000}
leaderElection: {leaderElect: false}
`

// resting is how long the idle controller is measured.
const resting = 30 * time.Second

func main() {
	parts.Benchmark{
		Name: "bench-controller", Only: "ONLY",
		Numbers: []parts.Number{
			{Name: "nodes", Usage: "nodes, of 10 volumes and 5 claims and pods each", Default: 1000},
			{Name: "lost", Usage: "nodes that are lost", Default: 20},
		},
		Parts: []parts.Part{{Name: "controller", Prefixes: []string{"Controller"}, Measure: measure}},
	}.Main()
}

func measure(ctx context.Context, r *parts.Run) (measured figures.Set, err error) {
	build := cluster.BuildOptions{Progress: os.Stderr}
	binaries, err := cluster.Build(ctx, build)
	if err != nil {
		return nil, err
	}
	binary, err := cluster.BuildCommand(ctx, build, "stowage.dev/stowage/cmd/controller")
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Binaries: binaries, NoKwok: true, ControllerManager: cluster.ControllerManagerConfig{Disabled: true},
		// No controller would remove the finalizers of used claims and volumes.
		APIServer: cluster.APIServerConfig{DisableAdmission: []string{"ServiceAccount", "StorageObjectInUseProtection"}},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	s, err := watch(ctx, c)
	if err != nil {
		return nil, err
	}
	nodes, lost := r.Number("nodes"), r.Number("lost")
	parts.Progress("%d nodes with all they have", nodes)
	if err := s.fill(ctx, nodes); err != nil {
		return nil, err
	}
	process, err := start(c, binary)
	if err != nil {
		return nil, err
	}
	for _, p := range []struct {
		name string
		do   func() error
	}{
		// Its caches are filled once it has handled the last node.
		{"start", func() error { return s.lose(ctx, nodes-1, 1) }},
		{"rest", func() error { return parts.Pass(ctx, resting) }},
		{"loss", func() error { return s.lose(ctx, 0, lost) }},
	} {
		line, err := phase(process, p.name, p.do)
		if err != nil {
			return nil, errors.Join(err, process.Kill())
		}
		measured = append(measured, line)
	}
	return measured, process.Kill()
}

// start runs the controller.
func start(c *cluster.Cluster, binary string) (*cluster.Process, error) {
	config := filepath.Join(c.Folder(), "controller.yaml")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	return c.StartCommand("controller", binary, []string{"--config=" + config, "--kubeconfig=" + c.Kubeconfig()}, nil)
}

// phase measures the controller's use of resources during do.
func phase(process *cluster.Process, name string, do func() error) (*benchfmt.Result, error) {
	parts.Progress("%s", name)
	before, err := source.Used(process)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := do(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(begin)
	after, err := source.Used(process)
	if err != nil {
		return nil, err
	}
	return figures.Line("Controller/phase="+name, 1, figures.Value{Value: took.Seconds(), Unit: "sec"}, figures.Value{Value: after.CPU - before.CPU, Unit: "cpu-sec"},
		figures.Value{Value: float64(after.RSS), Unit: "rss-B"}, figures.Value{Value: float64(after.Peak), Unit: "peak-B"}), nil
}

// What each node has. The last volumes have no claim.
const (
	volumesPerNode = 10
	claimsPerNode  = 5
	capacity       = "100Gi"
	namespace      = builders.DefaultNamespace
	waitLimit      = 10 * time.Minute
)

var class = builders.MakeClass("fast-disks").Obj()

func nodeName(n int) string     { return fmt.Sprintf("node-%d", n) }
func setName(n int) string      { return fmt.Sprintf("set-%d", n) }
func claimName(n, i int) string { return fmt.Sprintf("data-%s-%d", setName(n), i) }
func claimKey(n, i int) string  { return namespace + "/" + claimName(n, i) }
func volumeName(n, i int) string {
	return localpv.Name(nodeName(n), request(n, i).Disk.Key, localpv.FirstGeneration)
}

// request is a provisioner's request for a volume.
func request(n, i int) localpv.Request {
	return provisioners.Request(nodeName(n), class.Name, fmt.Sprintf("disk-%d", i), fmt.Sprintf("wwn:%08d%08d", n, i))
}

// state is the state of the cluster.
type state struct {
	client  kubernetes.Interface
	reports *diskreports.Client
	// volumes and claims are the informers' stores.
	volumes, claims cache.Store
	changes         await.Changes
}

// watch makes the kind of the reports, and watches volumes and claims until ctx ends.
func watch(ctx context.Context, c *cluster.Cluster) (*state, error) {
	s := &state{client: c.Client()}
	if err := c.CreateFiles(ctx, "manifests/crd/stowage.dev_localdiskreports.yaml"); err != nil {
		return nil, fmt.Errorf("run this from the top of the repository: %w", err)
	}
	var err error
	if s.reports, err = diskreports.NewClient(c.RESTConfig()); err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(s.client, 0)
	volumes, claims := factory.Core().V1().PersistentVolumes().Informer(), factory.Core().V1().PersistentVolumeClaims().Informer()
	s.volumes, s.claims = volumes.GetStore(), claims.GetStore()
	for _, informer := range []cache.SharedIndexInformer{volumes, claims} {
		if _, err := informer.AddEventHandler(s.changes.Handler()); err != nil {
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	return s, nil
}

// fill makes nodes, and what each of them has.
func (s *state) fill(ctx context.Context, nodes int) error {
	if _, err := s.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
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
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{*builders.MakePVC("data").Class(class.Name).Request(capacity).Obj()},
		},
	}
}

// volume makes a volume, and its claim and pod if it has any.
func (s *state) volume(ctx context.Context, set *appsv1.StatefulSet, n, i int) error {
	volume, problem := localpv.Volume(request(n, i))
	if problem != nil {
		return problem
	}
	core, claimed, phase := s.client.CoreV1(), i < claimsPerNode, corev1.VolumeAvailable
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	if claimed {
		claim := builders.MakePVC(claimName(n, i)).Label("app", set.Name).Class(class.Name).Request(capacity).VolumeName(volume.Name).Obj()
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
func (s *state) phase(ctx context.Context, volume string, phase corev1.PersistentVolumePhase) error {
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase)
	_, err := s.client.CoreV1().PersistentVolumes().Patch(ctx, volume, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// report makes a node's report, with an entry for each volume.
func (s *state) report(ctx context.Context, n int) error {
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
func (s *state) lose(ctx context.Context, first, nodes int) error {
	err := await.Each(ctx, nodes, func(ctx context.Context, n int) error {
		return s.client.CoreV1().Nodes().Delete(ctx, nodeName(first+n), metav1.DeleteOptions{})
	})
	if err != nil {
		return err
	}
	gone := func(store cache.Store, key func(n, disk int) string, each int) func() bool {
		return func() bool {
			for i := range nodes * each {
				if _, there, _ := store.GetByKey(key(first+i/each, i%each)); there {
					return false
				}
			}
			return true
		}
	}
	if err := s.changes.Wait(ctx, waitLimit, "the claims to be deleted", gone(s.claims, claimKey, claimsPerNode)); err != nil {
		return err
	}
	err = await.Each(ctx, nodes*claimsPerNode, func(ctx context.Context, i int) error {
		return s.phase(ctx, volumeName(first+i/claimsPerNode, i%claimsPerNode), corev1.VolumeReleased)
	})
	if err != nil {
		return err
	}
	return s.changes.Wait(ctx, waitLimit, "the volumes to be removed", gone(s.volumes, volumeName, volumesPerNode))
}
