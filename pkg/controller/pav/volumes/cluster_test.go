// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/pavclient"
	"stowage.dev/stowage/pkg/pav/report"
)

const provisionerText = `
apiVersion: stowage.dev/v1alpha1
kind: PavProvisioner
metadata: {name: p}
spec:
  provisioningModes: [Dynamic]
  podNamespaces: {claim: true}
  volumeValidation:
    podTemplate: {metadata: {namespace: "NAMESPACE"}, spec: {containers: [{name: main, image: i}]}}
  volumeCreation:
    handle: "h-{{ pvc.metadata.uid }}"
    podTemplate: {metadata: {namespace: "NAMESPACE"}, spec: {containers: [{name: main, image: i}]}}
  volumeDeletion:
    podTemplate: {metadata: {namespace: "NAMESPACE"}, spec: {containers: [{name: main, image: i}]}}
  volumeStaging:
    podTemplate: {spec: {containers: [{name: main, image: i}]}}
`

const classText = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: class}
provisioner: p
volumeBindingMode: WaitForFirstConsumer
reclaimPolicy: Delete
`

const claimText = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: c
  namespace: ns
  annotations: {volume.kubernetes.io/storage-provisioner: p, volume.kubernetes.io/selected-node: n1}
spec:
  storageClassName: class
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
`

var (
	claimKey       = key{"persistentvolumeclaims", "ns", "c"}
	classKey       = key{"storageclasses", "", "class"}
	provisionerKey = key{"pavprovisioners", "", "p"}
)

// cluster is a model of a cluster: an API server, the PersistentVolume controller, a kubelet, the
// storage system that the helper pods use, and the controller under test.
type cluster struct {
	*apiServer
	t    *testing.T
	time time.Time
	c    *Controller
	// storage are the volumes of the storage system, by the UID of their claim.
	storage map[string]bool
	// failing is how many pods of each step will fail.
	failing map[helperpod.Step]int
	// handle is what creation pods report; nil: nothing.
	handle *string
	// late is a resource whose informer gets no events.
	late    string
	events  []string
	decoded map[string]any // by key and version
	// rng has the informers of a controller lag behind.
	rng *rand.Rand
	// past are the objects before each round. A controller that becomes the leader begins with
	// those before the last lag rounds.
	past []map[key]object
}

const lag = 6

func newCluster(t *testing.T, podNamespace string) *cluster {
	t.Helper()
	c := &cluster{t: t, time: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC), storage: map[string]bool{}, failing: map[helperpod.Step]int{}, decoded: map[string]any{}, rng: rand.New(rand.NewPCG(1, 1))}
	c.apiServer = &apiServer{objects: map[key]object{}, now: func() time.Time { return c.time }}
	c.add(provisionerKey, strings.ReplaceAll(provisionerText, "NAMESPACE", podNamespace))
	c.add(classKey, classText)
	c.add(key{"nodes", "", "n1"}, "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}}")
	c.add(claimKey, claimText)
	c.lead()
	return c
}

func (c *cluster) add(k key, text string) {
	var o object
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		c.t.Fatal(err)
	}
	c.create(k, o)
}

// lead replaces the controller by a new process.
func (c *cluster) lead() {
	config := &rest.Config{Host: "http://cluster.test", Transport: c.apiServer, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	clients, err := pavclient.New(config)
	if err != nil {
		c.t.Fatal(err)
	}
	shared, err := steps.New(steps.Config{
		Client: client, Clients: clients, Informers: informers.NewSharedInformerFactory(client, 0),
		Events: c, Namespace: "stowage-pav", ReporterImage: "reporter",
	})
	if err != nil {
		c.t.Fatal(err)
	}
	shared.Now = c.now
	made, err := New(shared)
	if err != nil {
		c.t.Fatal(err)
	}
	c.c = made
	now := c.objects
	if len(c.past) > 0 { // API servers answer the first list from a cache, which may lag behind
		c.objects = c.past[max(0, len(c.past)-lag)]
	}
	c.watch(true)
	c.objects = now
	c.t.Cleanup(func() { made.queue.ShutDown(); made.provisionersQueue.ShutDown() })
}

// Eventf records an event.
func (c *cluster) Eventf(on, _ runtime.Object, kind, reason, _, note string, args ...any) {
	c.events = append(c.events, fmt.Sprintf("%T %s %s: %s", on, kind, reason, fmt.Sprintf(note, args...)))
}

// watch updates the informers' stores: some of them, or all.
func (c *cluster) watch(all bool) {
	factory := c.c.Informers
	stores := map[string]cache.Store{
		"persistentvolumeclaims": c.c.Claims.GetStore(), "persistentvolumes": c.c.PVs.GetStore(), "pods": c.c.Pods.GetStore(),
		"pavvolumes": c.c.Volumes.GetStore(), "pavprovisioners": c.c.Provisioners.GetStore(), "controllerrevisions": c.c.Revisions.GetStore(),
		"storageclasses": factory.Storage().V1().StorageClasses().Informer().GetStore(), "nodes": factory.Core().V1().Nodes().Informer().GetStore(),
	}
	for _, resource := range slices.Sorted(maps.Keys(stores)) { // in an order that runs repeat
		if resource == c.late || !all && c.rng.IntN(2) > 0 {
			continue
		}
		var objects []any
		for _, k := range c.keys(resource) {
			objects = append(objects, c.typed(k))
		}
		store := stores[resource]
		before := store.List()
		if err := store.Replace(objects, ""); err != nil {
			c.t.Fatal(err)
		}
		for _, object := range before {
			if volume, ok := object.(*stowage.PavVolume); ok {
				c.c.volumeChanged(volume)
			}
		}
	}
}

// typed returns a stored object as its Go type. It is shared.
func (c *cluster) typed(k key) any {
	version := fmt.Sprint(k, nested(c.objects[k], "metadata", "resourceVersion"))
	if found := c.decoded[version]; found != nil {
		return found
	}
	into := map[string]any{
		"persistentvolumeclaims": &corev1.PersistentVolumeClaim{}, "persistentvolumes": &corev1.PersistentVolume{}, "pods": &corev1.Pod{},
		"pavvolumes": &stowage.PavVolume{}, "pavprovisioners": &stowage.PavProvisioner{}, "controllerrevisions": &appsv1.ControllerRevision{},
		"storageclasses": &storagev1.StorageClass{}, "nodes": &corev1.Node{},
	}[k.resource]
	text, err := json.Marshal(c.objects[k])
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.decoded[version] = into
	return into
}

func get[T any](c *cluster, k key) *T {
	if c.objects[k] == nil {
		return nil
	}
	return c.typed(k).(*T)
}

// reconcile has the controller reconcile every volume once, and sometimes the provisioner. An error of the model means that the
// process was killed.
func (c *cluster) reconcile(synced bool) error {
	names := map[string]bool{}
	for _, k := range c.keys("pavvolumes") {
		names[k.name] = true
	}
	for _, k := range c.keys("persistentvolumeclaims") {
		names[rules.VolumeName(get[corev1.PersistentVolumeClaim](c, k).UID)] = true
	}
	var problems error
	if synced || c.rng.IntN(4) == 0 {
		_, err := c.c.reconcileProvisioner(c.t.Context(), "p")
		problems = c.unexpected(err)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		_, err := c.c.reconcile(c.t.Context(), name)
		problems = errors.Join(problems, c.unexpected(err))
	}
	return problems
}

var errKilled, errLost = errors.New("killed"), errors.New("the answer was lost")

func (c *cluster) unexpected(err error) error {
	if err != nil && !errors.Is(err, loop.ErrStale) && !errors.Is(err, errKilled) && !errors.Is(err, errLost) {
		c.t.Errorf("unexpected error: %v", err)
	}
	if errors.Is(err, errKilled) {
		return err
	}
	return nil
}

// bind is the PersistentVolume controller.
func (c *cluster) bind() {
	for _, k := range c.keys("persistentvolumes") {
		pv := get[corev1.PersistentVolume](c, k)
		ref := pv.Spec.ClaimRef
		at := key{"persistentvolumeclaims", ref.Namespace, ref.Name}
		claim := get[corev1.PersistentVolumeClaim](c, at)
		phase := "Released"
		if claim != nil && claim.UID == ref.UID {
			phase = "Bound"
			c.edit(at, func(o object) { o["spec"].(object)["volumeName"] = pv.Name })
		}
		c.edit(k, func(o object) { o["status"] = object{"phase": phase} })
	}
}

// kubelet starts each helper pod, and ends it in the next call. A pod that is being deleted ends
// as one that was terminated; kubelet deletes it once more when it has ended, without a grace period.
func (c *cluster) kubelet() {
	for _, k := range c.keys("pods") {
		pod := get[corev1.Pod](c, k)
		switch {
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
			if pod.DeletionTimestamp != nil {
				c.edit(k, func(o object) { o["metadata"].(object)["deletionGracePeriodSeconds"] = int64(0) })
			}
		case pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil:
		case pod.Spec.NodeName == "":
			c.checkStart(pod)
			c.edit(k, func(o object) { o["spec"].(object)["nodeName"] = "n1"; o["status"] = object{"phase": "Running"} })
			c.work(pod)
		default:
			c.edit(k, func(o object) { o["status"] = c.end(pod) })
		}
	}
}

// claimOf returns the UID of the claim that a helper pod works for.
func claimOf(pod *corev1.Pod) string { return strings.TrimPrefix(pod.OwnerReferences[0].Name, "pvc-") }

// work changes the storage system.
func (c *cluster) work(pod *corev1.Pod) {
	switch helperpod.Step(pod.Labels[wellknown.PavStepLabel]) {
	case helperpod.Creation:
		c.storage[claimOf(pod)] = true
	case helperpod.Deletion:
		delete(c.storage, claimOf(pod))
	}
}

// end returns the status of a pod whose containers end.
func (c *cluster) end(pod *corev1.Pod) object {
	r, code := report.Report{Capacity: new("2Gi"), Handle: c.handle}, 0
	if step := helperpod.Step(pod.Labels[wellknown.PavStepLabel]); c.failing[step] > 0 {
		c.failing[step]--
		r, code = report.Report{Error: strings.Repeat("no space ", 300)}, 1
	}
	message, err := report.Encode(r, report.MaxBytes)
	if err != nil {
		c.t.Fatal(err)
	}
	ended := func(name, message string, code int) object {
		at := c.time.UTC().Format(time.RFC3339)
		return object{"name": name, "state": object{"terminated": object{"exitCode": code, "startedAt": at, "finishedAt": at, "message": message}}}
	}
	phase := "Succeeded"
	if code != 0 {
		phase = "Failed"
	}
	return object{
		"phase":                 phase,
		"initContainerStatuses": []any{ended(helperpod.ReporterName, message, 0)},
		"containerStatuses":     []any{ended("main", "", code)},
	}
}

// round has each part of the cluster work once. It reports whether anything changed.
func (c *cluster) round(synced bool) bool {
	before := c.version
	c.past = append(c.past, maps.Clone(c.objects))
	c.watch(synced)
	if c.reconcile(synced) != nil {
		c.lead()
	}
	c.check()
	c.kubelet()
	c.check()
	c.bind()
	c.check()
	return c.version != before
}

// settle runs the cluster until nothing changes, also after the longest wait.
func (c *cluster) settle() {
	c.t.Helper()
	for rounds, quiet := 0, 0; quiet < 5; rounds++ {
		if rounds > 500 {
			c.t.Fatalf("the cluster never comes to rest: %v", c.summary())
		}
		if quiet++; c.round(quiet > 1) {
			quiet = 0
		}
		c.time = c.time.Add(time.Second)
		if quiet > 1 {
			c.time = c.time.Add(6 * time.Minute)
		}
	}
}
