// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestVersion(t *testing.T) {
	_, c := sharedCluster(t)
	got := must[string](t)(func() (string, error) {
		v, err := c.Client().Discovery().ServerVersion()
		if err != nil {
			return "", err
		}
		return v.GitVersion + " is " + v.Major + "." + v.Minor, nil
	}())
	m := must[module](t)(must[sources](t)(findSources()).kubernetes())
	parts := strings.Split(strings.TrimPrefix(m.version, "v"), ".")
	if want := fmt.Sprintf("%s is %s.%s", m.version, parts[0], parts[1]); got != want {
		t.Errorf("server version %q, want %q", got, want)
	}
}

func TestNodesBecomeReady(t *testing.T) {
	ctx, c := sharedCluster(t)
	unique := namespace(ctx, t, c)
	nodes := NodeSet{Prefix: unique, Count: 20, Zones: []string{"a", "b"}, Labels: map[string]string{"scenario": unique}}.Nodes()
	if err := c.AddNodes(ctx, nodes...); err != nil {
		t.Fatal(err)
	}
	list := must[*corev1.NodeList](t)(c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "scenario=" + unique}))
	if len(list.Items) != len(nodes) {
		t.Fatalf("%d nodes, want %d", len(list.Items), len(nodes))
	}
	zones := map[string]int{}
	for _, n := range list.Items {
		zones[n.Labels[corev1.LabelTopologyZone]]++
		if !Schedulable(&n) || n.Labels[corev1.LabelHostname] != n.Name || n.Status.NodeInfo.KubeletVersion == "" {
			t.Errorf("node %s is not as kwok and AddNodes leave it: %+v", n.Name, n)
		}
		if diff := cmp.Diff("32 256Gi 110", n.Status.Allocatable.Cpu().String()+" "+n.Status.Allocatable.Memory().String()+" "+n.Status.Allocatable.Pods().String()); diff != "" {
			t.Errorf("allocatable of %s (-want +got):\n%s", n.Name, diff)
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 10, "b": 10}, zones); diff != "" {
		t.Errorf("nodes by zone (-want +got):\n%s", diff)
	}
	if err := c.AddNodes(ctx, nodes[0]); !apierrors.IsAlreadyExists(err) {
		t.Errorf("adding a node again: %v, want AlreadyExists", err)
	}
}

func TestVolumeBecomesAvailable(t *testing.T) {
	ctx, c := sharedCluster(t)
	pv := localVolume(namespace(ctx, t, c), "none", "nowhere")
	must[*corev1.PersistentVolume](t)(c.Client().CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}))
	waitFor(ctx, t, c.core("persistentvolumes", "", pv.Name), func(pv *corev1.PersistentVolume) bool {
		return pv.Status.Phase == corev1.VolumeAvailable
	})
}

func TestDelayedClaimWaits(t *testing.T) {
	ctx, c := sharedCluster(t)
	ns := namespace(ctx, t, c)
	class := delayedClass(ns)
	if _, err := c.Client().StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pv := localVolume(ns, class.Name, "nowhere")
	must[*corev1.PersistentVolume](t)(c.Client().CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}))
	must[*corev1.PersistentVolumeClaim](t)(c.Client().CoreV1().PersistentVolumeClaims(ns).Create(ctx, claim("data", class.Name), metav1.CreateOptions{}))

	// The event shows that the PV controller has processed the claim.
	events := watched{c.client.CoreV1().RESTClient(), "events", ns, fields.OneTermEqualSelector("involvedObject.name", "data")}
	waitFor(ctx, t, events, func(e *corev1.Event) bool { return e.Reason == "WaitForFirstConsumer" })
	got := must[*corev1.PersistentVolumeClaim](t)(c.Client().CoreV1().PersistentVolumeClaims(ns).Get(ctx, "data", metav1.GetOptions{}))
	if got.Status.Phase != corev1.ClaimPending || got.Spec.VolumeName != "" {
		t.Errorf("claim is %s with volume %q, want it Pending without one", got.Status.Phase, got.Spec.VolumeName)
	}
}

func TestStockScheduler(t *testing.T) {
	ctx, c := sharedCluster(t)
	ns := namespace(ctx, t, c)
	nodes := NodeSet{Prefix: ns, Count: 3}.Nodes()
	if err := c.AddNodes(ctx, nodes...); err != nil {
		t.Fatal(err)
	}
	class := delayedClass(ns)
	if _, err := c.Client().StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pv := localVolume(ns, class.Name, nodes[1].Name)
	must[*corev1.PersistentVolume](t)(c.Client().CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}))
	must[*corev1.PersistentVolumeClaim](t)(c.Client().CoreV1().PersistentVolumeClaims(ns).Create(ctx, claim("data", class.Name), metav1.CreateOptions{}))
	must[*corev1.Pod](t)(c.Client().CoreV1().Pods(ns).Create(ctx, podWith("stateful", "data", corev1.DefaultSchedulerName), metav1.CreateOptions{}))

	p := scheduler(ctx, t, c, SchedulerOptions{})
	pod := waitFor(ctx, t, c.core("pods", ns, "stateful"), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if pod.Spec.NodeName != nodes[1].Name {
		t.Errorf("pod runs on %q, want the volume's node %q", pod.Spec.NodeName, nodes[1].Name)
	}
	waitFor(ctx, t, c.core("persistentvolumeclaims", ns, "data"), func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == pv.Name
	})

	metrics := must[[]byte](t)(p.Get(ctx, "/metrics"))
	if want := `scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1`; !strings.Contains(string(metrics), want) {
		t.Errorf("metrics lack %q", want)
	}
	if err := p.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := p.Err(); err != nil {
		t.Errorf("after Stop: %v", err)
	}
}

func TestStatefulSet(t *testing.T) {
	ctx, c := sharedCluster(t)
	ns := namespace(ctx, t, c)
	if err := c.AddNodes(ctx, NodeSet{Prefix: ns, Count: 1}.Nodes()...); err != nil {
		t.Fatal(err)
	}
	profile := ns // no other scheduler takes these pods
	pod := podWith("", "", profile)
	pod.Labels = map[string]string{"app": "set"}
	pod.Spec.Volumes = nil
	set := statefulSet("web", pod)
	if _, err := c.Client().AppsV1().StatefulSets(ns).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	scheduler(ctx, t, c, SchedulerOptions{Name: "set", ConfigYAML: []byte(
		"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: " + profile + "}]\n")})
	for _, name := range []string{"web-0", "web-1"} {
		waitFor(ctx, t, c.core("pods", ns, name), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	}
}

func TestUsersHaveTheirRights(t *testing.T) {
	ctx, c := sharedCluster(t)
	tests := map[string]struct {
		user   string
		groups []string
		list   bool
		delete bool
	}{
		"the scheduler sees nodes and may not delete them": {user: SchedulerUser, list: true},
		"a user without a role may do nothing":             {user: "nobody"},
		"a group gives rights":                             {user: "operator", groups: []string{adminGroup}, list: true, delete: true},
		"a service account is a user as any other":         {user: "system:serviceaccount:kube-system:generic-garbage-collector", list: true, delete: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := must[string](t)(c.KubeconfigFor(tc.user, tc.groups...))
			config, err := clientcmd.BuildConfigFromFlags("", path)
			if err != nil {
				t.Fatal(err)
			}
			client := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
			_, err = client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
			if apierrors.IsForbidden(err) == tc.list || (tc.list && err != nil) {
				t.Errorf("list nodes: %v, want it allowed: %t", err, tc.list)
			}
			err = client.CoreV1().Nodes().Delete(ctx, "missing", metav1.DeleteOptions{})
			if apierrors.IsForbidden(err) == tc.delete || (tc.delete && !apierrors.IsNotFound(err)) {
				t.Errorf("delete a missing node: %v, want it allowed: %t", err, tc.delete)
			}
		})
	}
}

func TestUnknownAuthoritiesAreRejected(t *testing.T) {
	ctx, c := sharedCluster(t)
	other := must[*authority](t)(newAuthority())
	pair := must[keyPair](t)(other.client(adminUser, adminGroup))
	client := must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(c.restConfig(pair)))
	if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a certificate of another authority: %v, want Unauthorized", err)
	}
	config := c.RESTConfig()
	config.CAData = other.pem
	client = must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(config))
	if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("a server of another authority: %v, want it refused", err)
	}
}

func TestDumpLogs(t *testing.T) {
	_, c := sharedCluster(t)
	var b strings.Builder
	if err := c.DumpLogs(&b); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager"} {
		if want := "==== last lines of " + c.folder.log(name); !strings.Contains(b.String(), want) {
			t.Errorf("dump lacks %q", want)
		}
	}
}

func TestSideBySide(t *testing.T) {
	ctx, c := sharedCluster(t)
	other := ownCluster(ctx, t, Config{Dir: t.TempDir(), ControllerManager: ControllerManagerConfig{Controllers: VolumeControllers, QPS: 100, Burst: 200}})
	if c.URL() == other.URL() || c.Folder() == other.Folder() {
		t.Errorf("two clusters share %s or %s", c.URL(), c.Folder())
	}
	if err := other.AddNodes(ctx, NodeSet{Prefix: "side", Count: 1}.Nodes()...); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client().CoreV1().Nodes().Get(ctx, "side-0", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a node of the other cluster: %v, want NotFound", err)
	}
	if err := other.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(other.Folder()); !os.IsNotExist(err) {
		t.Errorf("folder of a stopped cluster: %v, want it removed", err)
	}
	if _, err := other.StartScheduler(SchedulerOptions{}); err == nil {
		t.Error("a scheduler starts in a stopped cluster")
	}
	if err := c.APIServer().Process().WaitHealthy(ctx); err != nil {
		t.Errorf("this cluster failed when the other one ended: %v", err)
	}
}

// statefulSet makes two pods from a template.
func statefulSet(name string, pod *corev1.Pod) *appsv1.StatefulSet {
	replicas := int32(2)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}
}

// TestBareCluster: the cluster of benchmarks has only the API server and etcd.
func TestBareCluster(t *testing.T) {
	ctx := scenario(t)
	c := ownCluster(ctx, t, Config{
		NoKwok:            true,
		ControllerManager: ControllerManagerConfig{Disabled: true},
		APIServer:         APIServerConfig{DisableAdmission: []string{"ServiceAccount"}},
	})
	if err := c.AddNodes(ctx, NodeSet{Count: 100}.Nodes()...); err != nil {
		t.Fatal(err)
	}
	must[*corev1.Pod](t)(c.Client().CoreV1().Pods("default").Create(ctx, podWith("bare", "missing", "none"), metav1.CreateOptions{}))
	list := must[*corev1.NodeList](t)(c.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{}))
	ready := 0
	for _, n := range list.Items {
		if Schedulable(&n) {
			ready++
		}
	}
	if ready != 100 {
		t.Errorf("%d nodes are Ready, want 100", ready)
	}
	if m := c.ControllerManager(); m.Running() || m.Process() != nil {
		t.Error("the controller manager runs, although it is disabled")
	}
	if err := c.ControllerManager().Start(ctx); err != nil {
		t.Errorf("start it later: %v", err)
	}
}

// TestSavedEtcd: two clusters start with the data of a third.
func TestSavedEtcd(t *testing.T) {
	ctx := scenario(t)
	bare := Config{NoKwok: true, ControllerManager: ControllerManagerConfig{Disabled: true}}
	first := ownCluster(ctx, t, bare)
	made := must[*storagev1.StorageClass](t)(first.Client().StorageV1().StorageClasses().Create(ctx, delayedClass("kept"), metav1.CreateOptions{}))
	folder := filepath.Join(t.TempDir(), "saved")
	if err := first.SaveEtcd(ctx, folder); err != nil {
		t.Fatal(err)
	}
	if err := first.SaveEtcd(ctx, folder); err == nil {
		t.Error("saved again to the same folder without an error")
	}
	bare.EtcdData = folder
	for range 2 {
		classes := ownCluster(ctx, t, bare).Client().StorageV1().StorageClasses()
		if found := must[*storagev1.StorageClass](t)(classes.Get(ctx, "kept", metav1.GetOptions{})); found.UID != made.UID {
			t.Errorf("found class %s, want %s", found.UID, made.UID)
		}
		if err := classes.Delete(ctx, "kept", metav1.DeleteOptions{}); err != nil { // the other cluster has its own copy
			t.Error(err)
		}
	}
	bare.Binaries, bare.EtcdData = fixture.binaries, filepath.Join(t.TempDir(), "missing")
	if c, err := Start(ctx, bare); err == nil {
		t.Error("began with a folder that does not exist", c.Stop())
	}
}

// TestAllControllers has the node lifecycle controller watch over the nodes.
func TestAllControllers(t *testing.T) {
	ctx := scenario(t)
	c := ownCluster(ctx, t, Config{ControllerManager: ControllerManagerConfig{Controllers: AllControllers}})
	if err := c.AddNodes(ctx, NodeSet{Count: 2}.Nodes()...); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, "node-0", metav1.GetOptions{}); err != nil {
		t.Errorf("the lease of a node: %v", err)
	}
}

// canceled is a context that has ended.
func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
