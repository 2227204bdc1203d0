// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	core "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/perf/loadmodel/idle"
)

const (
	class = "local"
	gi    = 1024 // in Mi
)

// cluster is what an API server would hold: the newest state of each object is
// in the store of its informer.
type cluster struct {
	Config
	rng     *rand.Rand
	factory informers.SharedInformerFactory

	nodes, volumes, claims, pods, classes *idle.Informer

	// infos are kube-scheduler's entries of the nodes, in the order in which
	// it visits them; indexOf finds one by name.
	infos   []fwk.NodeInfo
	indexOf map[string]int
	// slots are the volumes by name, which they keep after each use.
	slots    []slot
	running  []*workload
	occupied int // volumes bound
	names    int // given to claims and pods

	// mu guards the following, since the binder writes from many goroutines.
	mu      sync.Mutex
	version uint64
	pending []idle.Event // of writes
	twice   []string
}

// slot is the place of a volume: a disk of a node.
type slot struct {
	name string
	node int
	size int // in Mi
}

// workload is a pod that runs, with its claims.
type workload struct {
	pod  *v1.Pod
	node int
	// claims are names, in the pod's namespace.
	claims []string
}

func newCluster(cfg Config) *cluster {
	factory := idle.NewFactory()
	return &cluster{
		Config:  cfg,
		rng:     rand.New(rand.NewPCG(seed, 1)),
		factory: factory,
		nodes:   idle.InformerOf(factory, &v1.Node{}),
		volumes: idle.InformerOf(factory, &v1.PersistentVolume{}),
		claims:  idle.InformerOf(factory, &v1.PersistentVolumeClaim{}),
		pods:    idle.InformerOf(factory, &v1.Pod{}),
		classes: idle.InformerOf(factory, &storagev1.StorageClass{}),
		indexOf: make(map[string]int, cfg.Nodes),
	}
}

// store puts the next version of an object into its informer's store. The
// caller hands the object over, and holds mu if others may write.
func (c *cluster) store(to *idle.Informer, old any, object runtime.Object) idle.Event {
	c.version++
	object.(metav1.Object).SetResourceVersion(strconv.FormatUint(c.version, 10))
	must(to.GetStore().Update(object))
	return idle.Event{Of: to, Old: old, Now: object}
}

// drop removes an object from its informer's store.
func (c *cluster) drop(from *idle.Informer, object runtime.Object) idle.Event {
	must(from.GetStore().Delete(object))
	return idle.Event{Of: from, Old: object}
}

// must is for what only objects without metadata make fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (c *cluster) volume(name string) (*v1.PersistentVolume, error) {
	return c.factory.Core().V1().PersistentVolumes().Lister().Get(name)
}

func (c *cluster) claim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return c.factory.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get(name)
}

// bound is a claim and its volume.
func (c *cluster) bound(namespace, name string) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error) {
	claim, err := c.claim(namespace, name)
	if err != nil {
		return nil, nil, err
	}
	pv, err := c.volume(claim.Spec.VolumeName)
	return claim, pv, err
}

// addNodes fills the store of nodes.
func (c *cluster) addNodes() {
	c.store(c.classes, nil, builders.MakeClass(class).Obj())
	for i := range c.Nodes {
		name := fmt.Sprintf("node-%06d", i)
		node := builders.MakeNode(name).UID("uid-of-" + name).Zone("zone-" + strconv.Itoa(i%3)).Obj()
		c.store(c.nodes, nil, node)
		info := framework.NewNodeInfo()
		info.SetNode(node)
		c.infos = append(c.infos, info)
		c.indexOf[name] = i
	}
}

// addVolumes fills the store of volumes, in the order of their names, as a list
// of the API server has them: a node's volumes are not adjacent.
func (c *cluster) addVolumes() {
	for node := range c.Nodes {
		for i := range c.VolumesPerNode {
			c.slots = append(c.slots, slot{
				name: fmt.Sprintf("local-pv-%08x%d", c.rng.Uint32(), len(c.slots)),
				node: node,
				size: 10*gi*(i+1) + c.rng.IntN(gi),
			})
		}
	}
	slices.SortFunc(c.slots, func(a, b slot) int { return cmp.Compare(a.name, b.name) })
	for i := range c.slots {
		c.store(c.volumes, nil, c.disk(&c.slots[i]).Obj())
	}
}

// disk is the volume of a slot when it has just been discovered.
func (c *cluster) disk(s *slot) *builders.PV {
	return builders.MakePV(s.name).UID(c.uid()).Class(class).Hostname(c.infos[s.node].Node().Name).
		Capacity(strconv.Itoa(s.size) + "Mi").ProvisionedBy("local-volume-provisioner")
}

func (c *cluster) uid() string {
	return fmt.Sprintf("%08x-%04x-4000-8000-%012x", c.rng.Uint32(), c.rng.Uint32N(1<<16), c.rng.Uint64N(1<<48))
}

// occupy binds the configured share of volumes, each to the claim of a
// running pod.
func (c *cluster) occupy() {
	for i := range c.slots {
		if c.rng.Float64() >= c.Occupied {
			continue
		}
		s := &c.slots[i]
		w := c.newWorkload(1, s.size*9/10)
		w.node = s.node
		pod, claim := w.pod.DeepCopy(), w.wanted[0]
		pod.Spec.NodeName = c.infos[s.node].Node().Name
		w.workload.pod = pod
		bound := builders.MakePVC(claim.Name).Namespace(claim.Namespace).UID(string(claim.UID)).Class(class).
			Request(strconv.Itoa(s.size*9/10) + "Mi").Bound(s.name).Obj()
		volume := c.disk(s).ClaimRef(claim.Namespace, claim.Name, string(claim.UID)).BoundByController().Phase(v1.VolumeBound).Obj()
		c.store(c.pods, nil, pod)
		c.store(c.claims, nil, bound)
		c.store(c.volumes, nil, volume)
		c.runs(&w.workload)
		c.occupied++
	}
}

// runs records that the pod runs on its node.
func (c *cluster) runs(w *workload) {
	c.infos[w.node].(*framework.NodeInfo).AddPod(w.pod)
	c.running = append(c.running, w)
}

// arrival is a pod to be placed and the claims that have been made for it.
type arrival struct {
	workload
	wanted []*v1.PersistentVolumeClaim
}

// newWorkload is a pod with claims of the given sizes in Mi; nothing is stored.
func (c *cluster) newWorkload(claims int, sizes ...int) *arrival {
	c.names++
	name, namespace := "pod-"+strconv.Itoa(c.names), "team-"+strconv.Itoa(c.names%100)
	a := &arrival{}
	for i := range claims {
		claim := builders.MakePVC(name + "-data-" + strconv.Itoa(i)).Namespace(namespace).UID(c.uid()).Class(class).
			Request(strconv.Itoa(sizes[i]) + "Mi").Obj()
		a.wanted = append(a.wanted, claim)
		a.claims = append(a.claims, claim.Name)
	}
	a.pod = builders.MakePod(name).Namespace(namespace).UID(c.uid()).PVC(a.claims...).Obj()
	return a
}

// newClient has the API requests of the plugin and its binder: writes of
// volumes and claims on the version that was read, and a review of rights, which grants
// everything. All others panic. Safe for concurrent use.
func (c *cluster) newClient() *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("create", "selfsubjectaccessreviews", func(a core.Action) (bool, runtime.Object, error) {
		review := a.(core.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = true
		return true, review, nil
	})
	for resource, to := range map[string]*idle.Informer{"persistentvolumes": c.volumes, "persistentvolumeclaims": c.claims} {
		client.AddReactor("update", resource, func(a core.Action) (bool, runtime.Object, error) {
			object := a.(core.UpdateAction).GetObject()
			return true, object, c.write(to, object)
		})
	}
	client.AddReactor("*", "*", func(a core.Action) (bool, runtime.Object, error) {
		panic(fmt.Sprintf("unexpected request: %s %s", a.GetVerb(), a.GetResource().Resource))
	})
	return client
}

// write stores an object, which it takes over, if it was changed in its newest version. The
// idle.Event waits for the model to deliver it.
func (c *cluster) write(to *idle.Informer, object runtime.Object) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := object.(metav1.Object)
	stored, ok, err := to.GetStore().Get(object)
	switch {
	case err != nil:
		return err
	case !ok:
		return apierrors.NewNotFound(schema.GroupResource{}, sent.GetName())
	}
	if pv, ok := object.(*v1.PersistentVolume); ok { // no volume is bound to a second claim
		if ref := stored.(*v1.PersistentVolume).Spec.ClaimRef; ref != nil && pv.Spec.ClaimRef != nil && ref.UID != pv.Spec.ClaimRef.UID {
			c.twice = append(c.twice, pv.Name)
		}
	}
	if stored.(metav1.Object).GetResourceVersion() != sent.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{}, sent.GetName(), fmt.Errorf("version %s was not the newest", sent.GetResourceVersion()))
	}
	c.pending = append(c.pending, c.store(to, stored, object))
	return nil
}
