// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"stowage.dev/stowage/test/deadline"
)

// scenarioTimeout limits a test with real components on a machine with other load.
var scenarioTimeout = 2 * deadline.Wait()

// fixture is what TestMain sets up for all tests and removes.
var fixture struct {
	binaries Binaries
	// shared is for tests that leave all components running; nil with -short.
	shared *Cluster
}

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		actAsParent()
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	code, err := withFixture(m.Run)
	if err == nil && code == 0 {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func withFixture(run func() int) (code int, err error) {
	flag.Parse()
	if testing.Short() {
		return run(), nil
	}
	if fixture.binaries, err = Build(context.Background(), BuildOptions{Progress: os.Stderr}); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), scenarioTimeout)
	defer cancel()
	if fixture.shared, err = Start(ctx, Config{Binaries: fixture.binaries}); err != nil {
		return 0, err
	}
	code = run()
	if code != 0 {
		err = fixture.shared.DumpLogs(os.Stderr)
	}
	if err := fixture.shared.Stop(); err != nil {
		return 0, err
	}
	return code, err
}

// sharedCluster returns the cluster that tests run on side by side, and a
// context that ends with the test.
func sharedCluster(t *testing.T) (context.Context, *Cluster) {
	t.Helper()
	ctx := scenario(t)
	return ctx, fixture.shared
}

// scenario returns the context of a test that needs real components.
func scenario(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioTimeout)
	t.Cleanup(cancel)
	return ctx
}

// ownCluster starts a cluster for one test.
func ownCluster(ctx context.Context, t *testing.T, config Config) *Cluster {
	t.Helper()
	config.Binaries = fixture.binaries
	c, err := Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			if err := c.DumpLogs(os.Stderr); err != nil {
				t.Error(err)
			}
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// scheduler starts the stock scheduler and ends it with the test.
func scheduler(ctx context.Context, t *testing.T, c *Cluster, o SchedulerOptions) *Process {
	t.Helper()
	p, err := c.StartHealthyScheduler(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// namespace makes a namespace for one test.
func namespace(ctx context.Context, t *testing.T, c *Cluster) string {
	t.Helper()
	ns, err := c.NewNamespace(ctx, "scenario")
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// must fails the test unless a call succeeded, and returns its result.
func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(made T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
}

// waitFor watches the one object of a resource until done returns true.
func waitFor[T runtime.Object](ctx context.Context, t *testing.T, where watched, done func(T) bool) T {
	t.Helper()
	var last, zero T
	lw := cache.NewListWatchFromClient(where.client, where.resource, where.namespace, where.selector)
	_, err := watchtools.UntilWithSync(ctx, lw, newLike(zero), nil, func(e watch.Event) (bool, error) {
		last = e.Object.(T)
		return e.Type != watch.Deleted && done(last), nil
	})
	if err != nil {
		t.Fatalf("wait for %s %s: %v; last seen: %+v", where.resource, where.selector, err, last)
	}
	return last
}

// watched is the object that waitFor watches.
type watched struct {
	client    rest.Interface
	resource  string
	namespace string
	selector  fields.Selector
}

func (c *Cluster) core(resource, namespace, name string) watched {
	return watched{c.client.CoreV1().RESTClient(), resource, namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, name)}
}

func newLike[T runtime.Object](T) runtime.Object {
	switch any(*new(T)).(type) {
	case *corev1.Pod:
		return &corev1.Pod{}
	case *corev1.PersistentVolume:
		return &corev1.PersistentVolume{}
	case *corev1.PersistentVolumeClaim:
		return &corev1.PersistentVolumeClaim{}
	case *corev1.Event:
		return &corev1.Event{}
	default:
		panic(fmt.Sprintf("waitFor does not know %T", *new(T)))
	}
}

// localVolume is a PV on one node.
func localVolume(name, class, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              class,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/disks/" + name}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
				}},
			}}}},
		},
	}
}

// delayedClass is a class for local volumes.
func delayedClass(name string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode,
	}
}

func claim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

// podWith is a pod that uses a claim and is placed by the named scheduler.
func podWith(name, claim, schedulerName string) *corev1.Pod {
	source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName,
			Containers:    []corev1.Container{{Name: "main", Image: "example.test/none"}},
			Volumes:       []corev1.Volume{{Name: "data", VolumeSource: source}},
		},
	}
}
