// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"strconv"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
	"stowage.dev/stowage/pkg/scheduling/volumetopology"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/perf/loadmodel/idle"
)

// cluster is a cluster of some size in the stores of informers, with a plugin
// that has seen all of it.
type cluster struct {
	t       testing.TB
	factory informers.SharedInformerFactory
	client  *fake.Clientset
	plugin  *volumetopology.Plugin
	cache   *volumecache.Cache
	nodes   []*v1.Node
	version int
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	w := &cluster{t: t, client: fake.NewClientset(), factory: idle.NewFactory()}
	w.client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = true
		return true, review, nil
	})
	plugin, err := volumetopology.New(t.Context(), nil, handle{cluster: w})
	if err != nil {
		t.Fatal(err)
	}
	w.plugin = plugin.(*volumetopology.Plugin)
	w.cache = w.plugin.Cache()
	return w
}

// put adds objects.
func (w *cluster) put(objects ...runtime.Object) {
	w.t.Helper()
	for _, object := range objects {
		w.version++
		object.(interface{ SetResourceVersion(string) }).SetResourceVersion(strconv.Itoa(w.version))
		to := idle.InformerOf(w.factory, object)
		if err := to.GetStore().Add(object); err != nil {
			w.t.Fatal(err)
		}
		idle.Event{Of: to, Now: object}.Deliver()
		if node, ok := object.(*v1.Node); ok {
			w.nodes = append(w.nodes, node)
		}
	}
}

// Claims of every cluster.
const (
	small = "small" // 15Gi
	large = "large" // more than any volume or capacity
	made  = "made"  // to be provisioned, 5Gi
)

func (w *cluster) putClaims() {
	claim := func(name, size string) *builders.PVC {
		return builders.MakePVC(name).UID("pvc-" + name).Class("local").Request(size)
	}
	w.put(builders.MakeClass("local").Obj(), claim(small, "15Gi").Obj(), claim(large, "1Ti").Obj(),
		builders.MakeClass("csi").Provisioner("csi.example.com").Obj(),
		builders.MakeCSIDriver("csi.example.com").StorageCapacity(true).Obj(),
		claim(made, "5Gi").Class("csi").Obj())
	for i := range 4 {
		w.put(claim("four-"+strconv.Itoa(i), strconv.Itoa(15*(i+1))+"Gi").Obj())
	}
}

// local has nodes with ten local volumes each: 10Gi, 20Gi … 100Gi.
func local(t testing.TB, nodes int) *cluster {
	w := newCluster(t)
	w.putClaims()
	for n := range nodes {
		name := "node-" + strconv.Itoa(n)
		w.put(builders.MakeNode(name).UID("uid-" + name).Obj())
		for i := range 10 {
			pv := fmt.Sprintf("pv-%d-%d", n, i)
			w.put(builders.MakePV(pv).UID("uid-" + pv).Class("local").Hostname(name).Capacity(strconv.Itoa(10*(i+1)) + "Gi").Obj())
		}
	}
	return w
}

// capacities has nodes with a CSIStorageCapacity of 10Gi each.
func capacities(t testing.TB, nodes int) *cluster {
	w := newCluster(t)
	w.putClaims()
	for n := range nodes {
		name := "node-" + strconv.Itoa(n)
		w.put(builders.MakeNode(name).UID("uid-"+name).Obj(),
			builders.MakeCapacity("capacity-"+name, "csi").Hostname(name).Capacity("10Gi").Obj())
	}
	return w
}

// some returns a hundred nodes, spread evenly. It is the same number for clusters of all sizes:
// the measurement is of work, not of the processor's caches.
func (w *cluster) some() []*v1.Node {
	const many = 100
	var some []*v1.Node
	for i := range many {
		some = append(some, w.nodes[i*len(w.nodes)/many])
	}
	return some
}

func (w *cluster) infos() []fwk.NodeInfo {
	var infos []fwk.NodeInfo
	for _, node := range w.some() {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		infos = append(infos, info)
	}
	return infos
}

func pod(claims ...string) *v1.Pod {
	return builders.MakePod("pod").UID("uid-pod").PVC(claims...).Obj()
}

func four() *v1.Pod { return pod("four-0", "four-1", "four-2", "four-3") }

func (w *cluster) demand(p *v1.Pod) *volumecache.Demand {
	w.t.Helper()
	d, refusal, err := w.cache.Demand(p)
	if refusal != nil || err != nil {
		w.t.Fatalf("Demand: refusal %v, error %v", refusal, err)
	}
	return d
}

// fits checks one node after the other.
func (w *cluster) fits(p *v1.Pod, want match.ReasonCode) func(int) {
	d, nodes := w.demand(p), w.some()
	return func(i int) {
		if got := w.cache.Fits(d, nodes[i%len(nodes)]).Code; got != want {
			w.t.Fatalf("Fits returns %q, want %q", got, want)
		}
	}
}

// handle is what plugins need of the framework.
type handle struct {
	fwk.Handle
	*cluster
}

func (h handle) ClientSet() kubernetes.Interface                        { return h.client }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

// filterer is a plugin under comparison.
type filterer interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
}

// stock is the plugin that ours takes the place of, on the same informers.
func (w *cluster) stock() filterer {
	w.t.Helper()
	plugin, err := volumebinding.New(w.t.Context(), &config.VolumeBindingArgs{BindTimeoutSeconds: 600}, handle{cluster: w},
		feature.Features{EnableVolumeAttributesClass: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return plugin.(filterer)
}
