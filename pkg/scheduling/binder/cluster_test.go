// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder_test

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

// cluster simulates an API server: compare-and-swap, status subresources, a volumeName
// that can be set once. It is also the binder's cache, which is always up to date.
type cluster struct {
	t  *testing.T
	mu sync.Mutex
	rv int

	volumes map[string]*v1.PersistentVolume
	claims  map[string]*v1.PersistentVolumeClaim
	nodes   map[string]*v1.Node
	pods    map[types.NamespacedName]types.UID

	waiting map[chan struct{}]struct{}
	// writes are the successful writes of all clients.
	writes []string
	// lost counts how often a claim was marked Lost.
	lost int

	// before and after, if set, are called around each request of the binder,
	// without the lock. An error that before returns replaces the server's response.
	before  func(call) error
	after   func(call)
	binders []*binder.Binder
	// hang delays every request until its context ends.
	hang bool
}

// call is one request of the binder.
type call struct{ verb, resource, name string }

func (c call) String() string { return c.verb + " " + c.resource + " " + c.name }

var _ binder.Cache = (*cluster)(nil)

// newCluster holds the objects and a pod on node n1.
func newCluster(t *testing.T, objects ...any) *cluster {
	c := &cluster{
		t: t, rv: 100,
		volumes: map[string]*v1.PersistentVolume{},
		claims:  map[string]*v1.PersistentVolumeClaim{},
		nodes:   map[string]*v1.Node{"n1": builders.MakeNode("n1").Obj()},
		pods:    map[types.NamespacedName]types.UID{pod: "pod-uid"},
		waiting: map[chan struct{}]struct{}{},
	}
	for _, object := range objects {
		c.rv++
		switch o := object.(type) {
		case *builders.PV:
			c.volumes[o.Obj().Name] = o.ResourceVersion(strconv.Itoa(c.rv)).Obj()
		case *builders.PVC:
			c.claims[key(o.Obj())] = o.ResourceVersion(strconv.Itoa(c.rv)).Obj()
		default:
			t.Fatalf("cannot hold a %T", object)
		}
	}
	return c
}

var pod = types.NamespacedName{Namespace: "default", Name: "pod"}

func key(claim *v1.PersistentVolumeClaim) string { return claim.Namespace + "/" + claim.Name }

// change changes objects, as another client.
func (c *cluster) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.check()
	c.notify()
}

// editVolume is another client's write to a volume.
func (c *cluster) editVolume(name string, f func(*v1.PersistentVolume)) {
	c.change(func() {
		volume := c.volumes[name].DeepCopy()
		f(volume)
		volume.ResourceVersion = c.next()
		c.volumes[name] = volume
	})
}

// editClaim is another client's write to a claim.
func (c *cluster) editClaim(name string, f func(*v1.PersistentVolumeClaim)) {
	c.change(func() {
		claim := c.claims["default/"+name].DeepCopy()
		f(claim)
		claim.ResourceVersion = c.next()
		c.claims["default/"+name] = claim
	})
}

func (c *cluster) next() string {
	c.rv++
	return strconv.Itoa(c.rv)
}

func (c *cluster) notify() {
	for changed := range c.waiting {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// putVolume is a write of spec and metadata, or of status.
func (c *cluster) putVolume(volume *v1.PersistentVolume, status bool) (*v1.PersistentVolume, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.volumes[volume.Name]
	if err := mayWrite("persistentvolumes", volume.Name, live != nil, func() bool {
		return live.UID == volume.UID && live.ResourceVersion == volume.ResourceVersion
	}); err != nil {
		return nil, err
	}
	stored := volume.DeepCopy()
	if status {
		stored.Spec, stored.ObjectMeta = live.Spec, *live.ObjectMeta.DeepCopy()
	} else {
		stored.Status = live.Status
	}
	stored.ResourceVersion = c.next()
	c.volumes[volume.Name] = stored
	c.wrote("persistentvolumes", volume.Name, status)
	return stored.DeepCopy(), nil
}

// putClaim is a write of spec and metadata, or of status.
func (c *cluster) putClaim(claim *v1.PersistentVolumeClaim, status bool) (*v1.PersistentVolumeClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.claims[key(claim)]
	if err := mayWrite("persistentvolumeclaims", claim.Name, live != nil, func() bool {
		return live.UID == claim.UID && live.ResourceVersion == claim.ResourceVersion
	}); err != nil {
		return nil, err
	}
	stored := claim.DeepCopy()
	if status {
		stored.Spec, stored.ObjectMeta = live.Spec, *live.ObjectMeta.DeepCopy()
		if stored.Status.Phase == v1.ClaimLost && live.Status.Phase != v1.ClaimLost {
			c.lost++
		}
	} else {
		stored.Status = live.Status
		if live.Spec.VolumeName != "" && live.Spec.VolumeName != stored.Spec.VolumeName {
			return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolumeClaim"}, claim.Name, nil)
		}
	}
	stored.ResourceVersion = c.next()
	c.claims[key(claim)] = stored
	c.wrote("persistentvolumeclaims", claim.Name, status)
	return stored.DeepCopy(), nil
}

func mayWrite(resource, name string, exists bool, same func() bool) error {
	group := schema.GroupResource{Resource: resource}
	switch {
	case !exists:
		return apierrors.NewNotFound(group, name)
	case !same():
		return apierrors.NewConflict(group, name, errors.New("the object has been modified"))
	}
	return nil
}

func (c *cluster) wrote(resource, name string, status bool) {
	if status {
		resource += "/status"
	}
	c.writes = append(c.writes, resource+" "+name)
	c.check()
	c.notify()
}

// check checks the invariants: the volume of a bound claim refers to the claim, and no other
// claim is bound to it.
func (c *cluster) check() {
	users := map[string]string{}
	for _, claim := range c.claims {
		if _, bound := claim.Annotations[plan.AnnBindCompleted]; !bound {
			continue
		}
		volume := c.volumes[claim.Spec.VolumeName]
		if volume == nil || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID {
			c.t.Errorf("after %v: claim %s refers to volume %q, which does not refer to it", c.writes, claim.Name, claim.Spec.VolumeName)
		}
		if other, taken := users[claim.Spec.VolumeName]; taken {
			c.t.Errorf("claims %s and %s have volume %s", claim.Name, other, claim.Spec.VolumeName)
		}
		users[claim.Spec.VolumeName] = claim.Name
	}
}

// log returns the writes so far.
func (c *cluster) log() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

func (c *cluster) Volume(name string) *v1.PersistentVolume {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.volumes[name].DeepCopy()
}

func (c *cluster) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claims[namespace+"/"+name].DeepCopy()
}

func (c *cluster) VolumeFor(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, volume := range c.volumes {
		if ref := volume.Spec.ClaimRef; ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID) {
			return volume.DeepCopy()
		}
	}
	return nil
}

func (c *cluster) NodeExists(name string) bool {
	exists, _ := c.NodeAdmits(&v1.PersistentVolume{}, name)
	return exists
}

func (c *cluster) NodeAdmits(volume *v1.PersistentVolume, name string) (exists, admits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node := c.nodes[name]
	if node == nil {
		return false, false
	}
	if volume.Spec.NodeAffinity == nil {
		return true, true
	}
	selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required)
	return true, err == nil && selector.Match(node)
}

func (c *cluster) PodExists(pod types.NamespacedName, uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[pod] == uid
}

func (c *cluster) Subscribe(*plan.Plan) (<-chan struct{}, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := make(chan struct{}, 1)
	c.waiting[changed] = struct{}{}
	return changed, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, changed)
	}
}

func (c *cluster) ApplyVolume(*v1.PersistentVolume)     {}
func (c *cluster) ApplyClaim(*v1.PersistentVolumeClaim) {}
