// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeats

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
)

const node = "a"

// testbed is a controller whose informers show what the test puts into them.
type testbed struct {
	t      *testing.T
	c      *Controller
	client *fake.Clientset
	report *stowage.LocalDiskReport // in the API server
	writes int
	// refused is the error of the next write.
	refused error
}

// runTest runs a test with a controller, a node and its report, and no Lease.
func runTest(t *testing.T, test func(w *testbed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &testbed{t: t, client: fake.NewClientset()}
		c, err := New(Config{
			Client: w.client, Reports: w, Informers: informers.NewSharedInformerFactory(w.client, 0),
			ReportInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, &stowage.LocalDiskReport{}, 0, cache.Indexers{}),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.queue.ShutDown()
		w.c = c
		w.put(c.Informers.Core().V1().Nodes().Informer(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
		w.ready(metav1.ConditionTrue)
		test(w)
	})
}

func (w *testbed) put(informer cache.SharedIndexInformer, object runtime.Object) {
	w.t.Helper()
	if err := informer.GetStore().Add(object); err != nil {
		w.t.Fatal(err)
	}
}

// ready sets the condition like the provisioner.
func (w *testbed) ready(status metav1.ConditionStatus) {
	w.t.Helper()
	w.report = &stowage.LocalDiskReport{ObjectMeta: metav1.ObjectMeta{Name: node, Generation: 3}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1}}
	if status != "" {
		w.report.Status.Conditions = []metav1.Condition{{Type: stowage.ConditionReady, Status: status, Reason: "DirectoriesRead"}}
	}
	w.put(w.c.ReportInformer, w.report)
}

// beat renews the Lease. The informer shows it if seen.
func (w *testbed) beat(seen bool, seconds int32) {
	w.t.Helper()
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: diskreports.HeartbeatNamespace},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &now, LeaseDurationSeconds: &seconds},
	}
	leases := w.client.CoordinationV1().Leases(diskreports.HeartbeatNamespace)
	_, err := leases.Update(context.Background(), lease, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(context.Background(), lease, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if seen {
		w.c.leaseChanged(lease)
	}
}

func (w *testbed) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the bubble's time
}

// sync reconciles the node and returns the time until the next reconciliation.
func (w *testbed) sync() time.Duration {
	w.t.Helper()
	again, err := w.c.sync(context.Background(), node)
	if err != nil {
		w.t.Fatal(err)
	}
	return again
}

// expect compares Ready and the number of silent provisioners.
func (w *testbed) expect(status metav1.ConditionStatus, silent int) {
	w.t.Helper()
	if c := meta.FindStatusCondition(w.report.Status.Conditions, stowage.ConditionReady); c == nil || c.Status != status {
		w.t.Errorf("Ready is %+v, want %s", c, status)
	}
	if got := len(w.c.silent); got != silent {
		w.t.Errorf("%d provisioners are silent, want %d", got, silent)
	}
}

// Get implements Reports.
func (w *testbed) Get(context.Context, string, metav1.GetOptions) (*stowage.LocalDiskReport, error) {
	return w.report.DeepCopy(), nil
}

// UpdateStatus implements Reports.
func (w *testbed) UpdateStatus(_ context.Context, report *stowage.LocalDiskReport, _ metav1.UpdateOptions) (*stowage.LocalDiskReport, error) {
	if err := w.refused; err != nil {
		w.refused = nil
		return nil, err
	}
	w.writes++
	w.report = report
	w.put(w.c.ReportInformer, report)
	return report, nil
}

// TestSilence: Ready becomes Unknown, once, when the last heartbeat is as old as its Lease says.
// The provisioner sets it to True again.
func TestSilence(t *testing.T) {
	t.Parallel()
	runTest(t, func(w *testbed) {
		w.beat(true, 30)
		if again := w.sync(); again != 30*time.Second {
			t.Errorf("looks again after %s, want 30s", again)
		}
		w.expect(metav1.ConditionTrue, 0)
		w.pass(30 * time.Second)
		w.sync()
		w.expect(metav1.ConditionUnknown, 1)
		if c := w.report.Status.Conditions[0]; c.Reason != stowage.ReasonNoHeartbeat || c.ObservedGeneration != 3 || c.Message == "" || c.LastTransitionTime.IsZero() {
			t.Errorf("Ready is %+v", c)
		}
		w.pass(time.Hour)
		w.sync()
		if w.writes != 1 {
			t.Errorf("written %d times", w.writes)
		}
		w.beat(true, 30)
		w.sync()
		w.expect(metav1.ConditionUnknown, 0)
		w.ready(metav1.ConditionTrue)
		w.sync()
		w.expect(metav1.ConditionTrue, 0)
	})
}

func TestNoSilence(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arrange func(w *testbed)
		status  metav1.ConditionStatus
		silent  int
	}{
		"a Lease that was never seen has the time of one heartbeat": {func(w *testbed) { w.sync(); w.pass(diskreports.HeartbeatDuration - 1) }, metav1.ConditionTrue, 0},
		"and is missing then": {func(w *testbed) { w.sync(); w.pass(diskreports.HeartbeatDuration) }, metav1.ConditionUnknown, 1},
		"a Lease without a duration has the default": {
			func(w *testbed) { w.beat(true, 0); w.pass(diskreports.HeartbeatDuration - 1) }, metav1.ConditionTrue, 0,
		},
		"one with a negative duration, too":   {func(w *testbed) { w.beat(true, -5); w.pass(diskreports.HeartbeatDuration - 1) }, metav1.ConditionTrue, 0},
		"one of many years lasts ten minutes": {func(w *testbed) { w.beat(true, math.MaxInt32); w.pass(longest) }, metav1.ConditionUnknown, 1},
		"the informer is behind":              {func(w *testbed) { w.beat(true, 30); w.pass(40 * time.Second); w.beat(false, 30) }, metav1.ConditionTrue, 0},
		"a write meets a newer report": {
			func(w *testbed) {
				w.beat(true, 30)
				w.pass(time.Minute)
				w.refused = apierrors.NewConflict(stowage.SchemeGroupVersion.WithResource("localdiskreports").GroupResource(), node, errors.New("it has changed"))
				if again := w.sync(); again == 0 {
					w.t.Error("it is not retried")
				}
			}, metav1.ConditionUnknown, 1,
		},
		"a node that is gone lacks no provisioner": {
			func(w *testbed) {
				w.beat(true, 30)
				w.pass(time.Minute)
				if err := w.c.Informers.Core().V1().Nodes().Informer().GetStore().Replace(nil, ""); err != nil {
					w.t.Fatal(err)
				}
			}, metav1.ConditionUnknown, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runTest(t, func(w *testbed) {
				test.arrange(w)
				w.sync()
				w.expect(test.status, test.silent)
			})
		})
	}
}

// TestReportOfNoProvisioner: a report that the controller wrote, of a node that is gone, and one
// without heartbeats.
func TestReportOfNoProvisioner(t *testing.T) {
	t.Parallel()
	runTest(t, func(w *testbed) {
		w.ready("")
		w.pass(time.Hour)
		if again := w.sync(); again != 0 || w.writes != 0 || len(w.c.silent) != 0 {
			t.Errorf("written %d times, silent %v, again after %s", w.writes, w.c.silent, again)
		}
	})
}
