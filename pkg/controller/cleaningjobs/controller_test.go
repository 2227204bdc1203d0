// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

const (
	namespace, node, volumeName = "ns", "n1", "local-pv-1"
	uid, attempt                = "uid1", "0123456789abcdef"
	path, identity              = "/mnt/fast/disk1", "fs:u1:/"
)

// testbed is a controller whose informers show what the test puts into them, and which
// does not run.
type testbed struct {
	t      *testing.T
	client *fake.Clientset
	c      *Controller
	// answers are the answers that were written last; writes is how often.
	answers []stowage.CleaningJob
	writes  int
}

// Patch implements Reports: the informer observes the patch at once.
func (w *testbed) Patch(_ context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*stowage.LocalDiskReport, error) {
	var written stowage.LocalDiskReport
	if err := json.Unmarshal(data, &written); err != nil {
		return nil, err
	}
	if name != node || kind != types.ApplyPatchType || o.FieldManager != fieldManager || len(sub) != 1 || written.UID != "report" {
		w.t.Errorf("patch %s %s %v %v %s", name, kind, o, sub, data)
	}
	w.answers, w.writes = written.Status.Jobs, w.writes+1
	report := w.report().DeepCopy()
	report.Status.Jobs = w.answers
	return report, w.c.ReportInformer.GetStore().Update(report)
}

func (w *testbed) report() *stowage.LocalDiskReport {
	object, _, _ := w.c.ReportInformer.GetStore().GetByKey(node)
	return object.(*stowage.LocalDiskReport)
}

// request writes a request to the report, or removes it if attempt is empty.
func (w *testbed) request(attempt string) {
	w.t.Helper()
	report := w.report().DeepCopy()
	report.Status.Entries = []stowage.Entry{{Class: "fast", Name: "disk1", Path: path, Volume: volumeName, State: stowage.EntryCleaning}}
	if attempt != "" {
		report.Status.Entries[0].Cleaning = &stowage.Cleaning{Request: &stowage.CleaningRequest{Attempt: attempt, VolumeUID: uid, Identity: identity}}
	}
	if err := w.c.ReportInformer.GetStore().Update(report); err != nil {
		w.t.Fatal(err)
	}
}

// reconcile reconciles the node and returns state and reason of its only answer.
func (w *testbed) reconcile() string {
	w.t.Helper()
	if err := w.c.reconcile(w.t.Context(), node); err != nil {
		w.t.Error(err)
	}
	if len(w.answers) != 1 {
		return ""
	}
	return string(w.answers[0].State) + " " + w.answers[0].Reason
}

// show updates the informer of Jobs from the API server.
func (w *testbed) show(attempt string, change func(*batchv1.Job)) {
	w.t.Helper()
	job, err := w.client.BatchV1().Jobs(namespace).Get(w.t.Context(), cleanjob.Name(uid, attempt), metav1.GetOptions{})
	if err != nil {
		job = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: cleanjob.Name(uid, attempt), Namespace: namespace}}
		if err := w.c.jobs.GetIndexer().Delete(job); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	job.UID = types.UID(job.Name)
	if change != nil {
		change(job)
	}
	if err := w.c.jobs.GetIndexer().Add(job); err != nil {
		w.t.Fatal(err)
	}
}

func failed(job *batchv1.Job) {
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}}
}

// count is how many requests of a kind there were for Jobs.
func (w *testbed) count(verb string) int {
	n := 0
	for _, action := range w.client.Actions() {
		if action.Matches(verb, "jobs") {
			n++
		}
	}
	return n
}

// volume is the volume of the requests.
func volume() *corev1.PersistentVolume {
	now := metav1.Now()
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: volumeName, UID: uid, DeletionTimestamp: &now, Finalizers: []string{wellknown.LocalVolumeFinalizer},
			Labels: map[string]string{wellknown.NodeLabel: localpv.NodeHash(node)},
			Annotations: map[string]string{
				wellknown.NodeNameAnnotation: node, localpv.ProvisionedByAnnotation: localpv.ProvisionedBy(node), wellknown.DiskIdentityAnnotation: identity,
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "fast", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
	}
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "provisioners", Namespace: namespace}, Data: data}
}

var goodConfig = map[string]string{"storageClassMap": "fast: {hostDir: /mnt/fast}", "useJobForCleaning": "true"}

func daemonSet(image string) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "provisioners", Namespace: namespace}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "another"}, {Name: "provisioner", Image: image}}
	return d
}

// runTest runs a test that begins with a valid request.
func runTest(t *testing.T, writeAnswers func(w *testbed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &testbed{t: t, client: fake.NewClientset(volume())}
		c, err := New(Config{
			Client: w.client, Reports: w, Namespace: namespace, ConfigMap: "provisioners", DaemonSet: "provisioners",
			ReportInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, &stowage.LocalDiskReport{}, 0, cache.Indexers{}),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.queue.ShutDown()
		w.c = c
		report := &stowage.LocalDiskReport{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "report"}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1}}
		if err := c.ReportInformer.GetStore().Add(report); err != nil {
			t.Fatal(err)
		}
		w.put(configMap(goodConfig))
		w.put(daemonSet("image"))
		w.request(attempt)
		writeAnswers(w)
	})
}

// put adds an object to its informer.
func (w *testbed) put(object runtime.Object) {
	w.t.Helper()
	store := w.c.settings.Core().V1().ConfigMaps().Informer().GetStore()
	if _, ok := object.(*appsv1.DaemonSet); ok {
		store = w.c.provisioners.Apps().V1().DaemonSets().Informer().GetStore()
	}
	if err := store.Add(object); err != nil {
		w.t.Fatal(err)
	}
}

func TestJobOfARequest(t *testing.T) {
	runTest(t, func(w *testbed) {
		if got := w.reconcile(); got != "Running " {
			t.Fatalf("answered %q", got)
		}
		job, err := w.client.BatchV1().Jobs(namespace).Get(t.Context(), cleanjob.Name(uid, attempt), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if spec := job.Spec.Template.Spec; spec.NodeName != node || spec.Containers[0].Image != "image" {
			t.Errorf("on %s, image %s", spec.NodeName, spec.Containers[0].Image)
		}
		// The informer of Jobs lags behind that of reports.
		if got := w.reconcile(); got != "Running " || w.count("create") != 1 {
			t.Errorf("answered %q, made %d Jobs", got, w.count("create"))
		}
		w.show(attempt, failed)
		if got := w.reconcile(); got != "Failed BackoffLimitExceeded" {
			t.Errorf("answered %q", got)
		}
		w.show(attempt, nil) // a final state does not change
		writes := w.writes
		if got := w.reconcile(); got != "Failed BackoffLimitExceeded" || w.writes != writes {
			t.Errorf("answered %q, %d more writes", got, w.writes-writes)
		}
		w.request("")
		if w.reconcile(); len(w.answers) > 0 {
			t.Errorf("no request, but the answer is %v", w.answers)
		}
	})
}

// TestAnotherController: another controller has created the Job already.
func TestAnotherController(t *testing.T) {
	runTest(t, func(w *testbed) {
		w.reconcile()
		report := w.report().DeepCopy()
		report.Status.Jobs = nil // its answer is not observed yet, nor is its Job
		if err := w.c.ReportInformer.GetStore().Update(report); err != nil {
			t.Fatal(err)
		}
		if got := w.reconcile(); got != "Running " {
			t.Errorf("answered %q", got)
		}
	})
}

func TestJobDeletedByHand(t *testing.T) {
	runTest(t, func(w *testbed) {
		w.reconcile()
		w.show(attempt, nil)
		if err := w.client.BatchV1().Jobs(namespace).Delete(t.Context(), cleanjob.Name(uid, attempt), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.show(attempt, nil)
		if got := w.reconcile(); got != "Failed JobDeleted" {
			t.Errorf("answered %q", got)
		}
	})
}

// TestOneAtATime: an attempt begins when Job and pod of the previous one are gone.
func TestOneAtATime(t *testing.T) {
	runTest(t, func(w *testbed) {
		w.reconcile()
		w.show(attempt, nil)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace, Labels: map[string]string{
			wellknown.CleaningLabel: uid, wellknown.NodeLabel: localpv.NodeHash(node),
		}}}
		if err := w.c.pods.GetIndexer().Add(pod); err != nil {
			t.Fatal(err)
		}
		const next = "fedcba9876543210"
		w.request(next)
		if got := w.reconcile(); got != "Waiting EarlierAttempt" || w.count("delete") != 1 || w.count("create") != 1 {
			t.Fatalf("answered %q, deleted %d, made %d", got, w.count("delete"), w.count("create"))
		}
		w.show(attempt, nil)
		if got := w.reconcile(); got != "Waiting EarlierAttempt" || w.count("create") != 1 {
			t.Fatalf("while the pod is there: answered %q", got)
		}
		if err := w.c.pods.GetIndexer().Delete(pod); err != nil {
			t.Fatal(err)
		}
		if got := w.reconcile(); got != "Running " || w.answers[0].Attempt != next {
			t.Errorf("answered %q: %v", got, w.answers)
		}
	})
}

// TestJobOfAnotherNode: a request with the volume of another node does not delete that node's Job.
func TestJobOfAnotherNode(t *testing.T) {
	runTest(t, func(w *testbed) {
		theirs := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: namespace, Labels: map[string]string{
			wellknown.CleaningLabel: uid, wellknown.NodeLabel: localpv.NodeHash("another"),
		}}}
		if err := w.c.jobs.GetIndexer().Add(theirs); err != nil {
			t.Fatal(err)
		}
		if got := w.reconcile(); got != "Running " || w.count("delete") != 0 {
			t.Errorf("answered %q, deleted %d", got, w.count("delete"))
		}
	})
}

// TestAbandonedJob: a restarted provisioner keeps its Job; without a request the Job is deleted
// after a while.
func TestAbandonedJob(t *testing.T) {
	runTest(t, func(w *testbed) {
		w.reconcile()
		w.show(attempt, nil)
		w.request("")
		w.reconcile()
		time.Sleep(abandonedFor - time.Second) //nolint:forbidigo // the bubble's time
		w.reconcile()
		w.request(attempt)
		w.reconcile()
		w.request("")
		w.reconcile()
		time.Sleep(abandonedFor - time.Second) //nolint:forbidigo // the bubble's time
		if w.reconcile(); w.count("delete") > 0 {
			t.Error("deleted a Job that was requested a moment ago")
		}
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's time
		if w.reconcile(); w.count("delete") != 1 {
			t.Errorf("deleted %d times", w.count("delete"))
		}
	})
}

// TestNoJob: no Job is created for these reasons, and one is created when they no longer hold.
func TestNoJob(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *testbed)
		want   string
		final  bool
	}{
		"the configuration is not valid": {
			change: func(w *testbed) { w.put(configMap(map[string]string{"storageClassMap": "[]"})) }, want: "Waiting ConfigurationInvalid",
		},
		"Jobs are switched off": {
			change: func(w *testbed) {
				w.put(configMap(map[string]string{"storageClassMap": goodConfig["storageClassMap"]}))
			}, want: "Refused JobsNotConfigured", final: true,
		},
		"nothing says which image": {change: func(w *testbed) { w.put(daemonSet("")) }, want: "Waiting NoImage"},
		"the API server refuses it": {
			change: func(w *testbed) {
				refused := false
				w.client.PrependReactor("create", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
					first := !refused
					refused = true
					return first, nil, context.DeadlineExceeded
				})
			},
			want: "Waiting CannotCreateJob",
		},
		"the volume is another provisioner's": {
			change: func(w *testbed) {
				pv := volume()
				pv.Annotations[wellknown.NodeNameAnnotation] = "n2"
				if err := w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumes"), pv, ""); err != nil {
					w.t.Fatal(err)
				}
			},
			want: "Refused NoSuchVolume", final: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(w *testbed) {
				test.change(w)
				_ = w.c.reconcile(t.Context(), node)
				if len(w.answers) != 1 || string(w.answers[0].State)+" "+w.answers[0].Reason != test.want {
					t.Fatalf("answered %v, want %s", w.answers, test.want)
				}
				w.put(configMap(goodConfig))
				w.put(daemonSet("image"))
				want := "Running "
				if test.final {
					want = test.want
				}
				if got := w.reconcile(); got != want {
					t.Errorf("then answered %q, want %q", got, want)
				}
			})
		})
	}
}

// TestReportsOfOthers: a page whose nodeName differs from its name is ignored.
func TestReportsOfOthers(t *testing.T) {
	runTest(t, func(w *testbed) {
		report := w.report().DeepCopy()
		report.Name, report.Spec.NodeName, report.Spec.Page = "n1.page-2", "n2", 2
		report.Status.Entries[0].Path = "/mnt/fast/disk2"
		if err := w.c.ReportInformer.GetStore().Add(report); err != nil {
			t.Fatal(err)
		}
		w.reconcile()
		var paths []string
		for _, answer := range w.answers {
			paths = append(paths, answer.Path)
		}
		if diff := cmp.Diff([]string{path}, paths); diff != "" {
			t.Error(diff)
		}
	})
}
