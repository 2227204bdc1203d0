// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// site is an empty cluster with a node, a scheduler and a kubelet of sorts.
type site struct {
	*cluster.Cluster
	t         *testing.T
	client    dynamic.Interface
	kubelet   *kubelet
	namespace string // of the release
}

func newSite(t *testing.T) *site {
	t.Helper()
	ctx := t.Context()
	provisioner, err := cluster.BuildCommand(ctx, cluster.BuildOptions{Progress: os.Stderr}, "stowage.dev/stowage/cmd/provisioner")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Binaries: fixture.DefaultConfig().Binaries, NoKwok: true,
		ControllerManager: cluster.ControllerManagerConfig{QPS: 500, Burst: 1000, Controllers: slices.Concat(cluster.DefaultControllers, []string{
			"deployment-controller", "replicaset-controller", "daemonset-controller", "job-controller", "disruption-controller",
			"endpointslice-controller",
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &site{Cluster: c, t: t, namespace: namespace}
	if s.client, err = dynamic.NewForConfig(c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if err := c.AddNodes(ctx, cluster.NodeSet{Count: 1}.Nodes()...); err != nil {
		t.Fatal(err)
	}
	s.kubelet = startKubelet(t, c, provisioner)
	if _, err := c.StartHealthyScheduler(ctx, cluster.SchedulerOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// helm runs Helm against the cluster.
func (s *site) helm(args ...string) {
	s.t.Helper()
	if out, err := s.tryHelm(args...); err != nil {
		s.t.Fatalf("helm %s: %v\n%s\n%s", args[0], err, out, s.pods())
	}
}

// pods is how far the pods are, and their events, for the log of a test that failed.
func (s *site) pods() string {
	var b strings.Builder
	core := s.Client().CoreV1()
	pods, err := core.Pods("").List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, p := range pods.Items {
		fmt.Fprintf(&b, "pod %s/%s of node %q: %s, deleted %v, finalizers %v\n", p.Namespace, p.Name, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp, p.Finalizers)
	}
	events, err := core.Events(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		return b.String() + err.Error()
	}
	for _, e := range events.Items {
		fmt.Fprintf(&b, "event of %s %s: %s: %s\n", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
	}
	return b.String()
}

// tryHelm is helm that may fail.
func (s *site) tryHelm(args ...string) (string, error) {
	s.t.Helper()
	return command(s.t, tools.helm, append(args, "--kubeconfig", s.Kubeconfig(), "--namespace", s.namespace)...)
}

// TestHelm: installed on an empty cluster into a namespace of any name, upgraded over a workload,
// and uninstalled; nothing is left but what users have, and no volume that cannot be deleted.
func TestHelm(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.namespace = "storage"
	s.helm("install", release, chart, "--create-namespace", "--wait", "--timeout", waitTimeout.String(), "--set", "crds.keep=false")
	s.checkWriters()
	s.checkSecond()
	volumes := s.makeWorkload()

	before := s.look(volumes)
	s.helm("upgrade", release, chart, "--wait", "--timeout", waitTimeout.String(), "--set", "crds.keep=false,provisioner.logLevel=4,scheduler.replicaCount=3")
	if diff := cmp.Diff(before, s.look(volumes)); diff != "" {
		t.Errorf("the upgrade changed the workload (-before +after):\n%s", diff)
	}

	s.helm("uninstall", release, "--wait", "--timeout", waitTimeout.String())
	s.checkLeft(volumes, s.namespace+"/stowage-release")
	s.checkNothingLeft(false)
}

// TestManifests: the same by kustomize, with the scheduler's tag of the cluster's minor.
func TestManifests(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	built, err := command(t, tools.kustomize, "build", filepath.Join(files, "overlays/default"))
	if err != nil {
		t.Fatal(err)
	}
	objects := installOrder(parse(t, strings.ReplaceAll(built, schedulerTag(newestMinor(t)), schedulerTag(minor()))))
	s.apply(objects)
	s.waitDaemonSet()
	volumes := s.makeWorkload()
	before := s.look(volumes)
	s.apply(objects) // as after a change of versions
	if diff := cmp.Diff(before, s.look(volumes)); diff != "" {
		t.Errorf("the upgrade changed the workload (-before +after):\n%s", diff)
	}

	uninstall := kustomize(t, "uninstall")
	s.apply(uninstall)
	s.waitJob()
	slices.Reverse(objects)
	s.delete(uninstall)
	s.delete(objects)
	s.checkLeft(volumes, s.namespace+"/stowage-release")
	s.checkNothingLeft(true)
}

// checkWriters: the policies are those of the provisioners in the namespace of the release. An account of
// the same name in another namespace may write nothing.
func (s *site) checkWriters() {
	s.t.Helper()
	node := cluster.NodeSet{Count: 1}.Nodes()[0].Name
	create := func(space, report string) error {
		config := rest.CopyConfig(s.RESTConfig())
		config.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + space + ":stowage-provisioner", Groups: []string{"system:serviceaccounts", "system:authenticated"},
			Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}},
		}
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			s.t.Fatal(err)
		}
		o := parse(s.t, "apiVersion: stowage.dev/v1alpha1\nkind: LocalDiskReport\nmetadata: {name: "+report+"}\nspec: {nodeName: "+report+", page: 1}\n")[0]
		_, err = cluster.ResourceOf(client, o).Create(s.t.Context(), o, dryRun)
		return err
	}
	var err error
	if !comes(s.t, func() bool {
		err = create(s.namespace, "other")
		return err != nil && strings.Contains(err.Error(), "writes its own report only")
	}) {
		s.t.Errorf("the report of another node: %v, want the policy to deny it", err)
	}
	if err := create(s.namespace, node); err != nil {
		s.t.Errorf("the provisioner's own report: %v", err)
	}
	if err := create(namespace, node); !apierrors.IsForbidden(err) {
		s.t.Errorf("the report of an account in another namespace: %v, want it forbidden", err)
	}
}

// checkSecond: a cluster has one release, since its cluster-wide objects have fixed names.
func (s *site) checkSecond() {
	s.t.Helper()
	out, err := command(s.t, tools.helm, "install", "second", chart, "--kubeconfig", s.Kubeconfig(), "--namespace", "second", "--create-namespace")
	if err == nil || !strings.Contains(err.Error(), `invalid ownership metadata`) {
		s.t.Errorf("a second release: %v, want it refused\n%s", err, out)
	}
}

func (s *site) apply(objects []object) {
	s.t.Helper()
	for _, o := range objects {
		if err := cluster.Apply(s.t.Context(), s.client, o); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *site) delete(objects []object) {
	s.t.Helper()
	background := metav1.DeletePropagationBackground
	for _, o := range objects {
		err := cluster.ResourceOf(s.client, o).Delete(s.t.Context(), o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			s.t.Fatalf("delete %s: %v", name(o), err)
		}
	}
}

// until waits for an object's events.
func until[T runtime.Object](s *site, resource, space, name string, done func(T) bool) {
	s.t.Helper()
	var kind T
	client := s.Client().CoreV1().RESTClient()
	switch resource {
	case "daemonsets":
		client = s.Client().AppsV1().RESTClient()
	case "jobs":
		client = s.Client().BatchV1().RESTClient()
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), waitTimeout)
	defer cancel()
	lw := cache.NewListWatchFromClient(client, resource, space, fields.OneTermEqualSelector("metadata.name", name))
	_, err := watchtools.UntilWithSync(ctx, lw, kind, nil, func(event watch.Event) (bool, error) {
		o, ok := event.Object.(T)
		return ok && done(o), nil
	})
	if err != nil {
		s.t.Fatalf("wait for %s %s: %v\n%s", resource, name, err, s.pods())
	}
}

// waitDaemonSet returns when the provisioners run.
func (s *site) waitDaemonSet() {
	s.t.Helper()
	until(s, "daemonsets", s.namespace, "stowage-provisioner", func(set *appsv1.DaemonSet) bool { return set.Status.NumberReady == 1 })
}

// waitJob returns when the Job has succeeded.
func (s *site) waitJob() {
	s.t.Helper()
	until(s, "jobs", s.namespace, "stowage-release", func(job *batchv1.Job) bool {
		return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
		})
	})
}

// The volumes of a workload, and their states.
const (
	inUse     = "in-use"
	free      = "free"
	givenBack = "given-back"
	cleaning  = "cleaning"
)

// makeWorkload makes a pod with a claim, and volumes as provisioners make them.
func (s *site) makeWorkload() []string {
	s.t.Helper()
	ctx, core := s.t.Context(), s.Client().CoreV1()
	node := cluster.NodeSet{Count: 1}.Nodes()[0].Name
	for _, name := range []string{inUse, free, givenBack, cleaning} {
		pv := builders.MakePV(name).Class(name).Hostname(node).Capacity("1Gi").Label(wellknown.NodeLabel, localpv.NodeHash(node)).
			Annotation(wellknown.NodeNameAnnotation, node).ProvisionedBy(localpv.ProvisionedBy(node)).
			ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).
			Source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/disks/" + name}}).Obj()
		pv.Finalizers = []string{wellknown.LocalVolumeFinalizer}
		if _, err := core.PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
		s.waitPhase(name, corev1.VolumeAvailable)
		if name == free {
			continue
		}
		claim := builders.MakePVC(name).Namespace("default").Class(name).Request("1Gi").Obj()
		claim.Spec.VolumeName = name
		if _, err := core.PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
		s.waitPhase(name, corev1.VolumeBound)
	}
	for _, name := range []string{givenBack, cleaning} {
		if err := core.PersistentVolumeClaims("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
		s.waitPhase(name, corev1.VolumeReleased)
	}
	if err := core.PersistentVolumes().Delete(ctx, cleaning, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	pod := builders.MakePod("user").Namespace("default").PVC(inUse).Obj()
	if _, err := core.Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	until(s, "pods", "default", "user", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	return []string{inUse, free, givenBack, cleaning}
}

func (s *site) waitPhase(volume string, phase corev1.PersistentVolumePhase) {
	s.t.Helper()
	until(s, "persistentvolumes", "", volume, func(pv *corev1.PersistentVolume) bool { return pv.Status.Phase == phase })
}

// look is what an upgrade must not change: volumes, claim and pod.
func (s *site) look(volumes []string) map[string]string {
	s.t.Helper()
	ctx, core, seen := s.t.Context(), s.Client().CoreV1(), map[string]string{}
	for _, name := range volumes {
		pv, err := core.PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		spec, err := json.Marshal(pv.Spec)
		if err != nil {
			s.t.Fatal(err)
		}
		seen["volume "+name] = fmt.Sprint(pv.UID, string(spec), pv.Status.Phase, notKubernetes(pv.Finalizers), pv.DeletionTimestamp)
	}
	claim, err := core.PersistentVolumeClaims("default").Get(ctx, inUse, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	pod, err := core.Pods("default").Get(ctx, "user", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	seen["claim"] = fmt.Sprint(claim.UID, claim.Spec.VolumeName, claim.Status.Phase)
	seen["pod"] = fmt.Sprint(pod.UID, pod.Spec.NodeName, pod.Status.Phase)
	return seen
}

// notKubernetes are the finalizers that Kubernetes itself does not remove.
func notKubernetes(finalizers []string) []string {
	return slices.DeleteFunc(finalizers, func(f string) bool { return f == "kubernetes.io/pv-protection" })
}
