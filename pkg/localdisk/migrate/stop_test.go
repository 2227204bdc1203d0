// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"stowage.dev/stowage/pkg/localdisk/migrate"
	"stowage.dev/stowage/pkg/testing/builders"
)

// daemonSet is the provisioners' DaemonSet.
func daemonSet() *appsv1.DaemonSet {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "stowage-system", Name: "stowage-provisioner"}}
	set.Spec.Template.Spec.ServiceAccountName = "stowage-provisioner"
	return set
}

// endsOnceWatched ends a pod as soon as pods are watched, and not before.
func endsOnceWatched(client *fake.Clientset, pod *corev1.Pod) {
	client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		events, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err == nil {
			err = client.Tracker().Delete(action.GetResource(), pod.Namespace, pod.Name)
		}
		return true, events, err
	})
}

func TestStopProvisioners(t *testing.T) {
	notReady := builders.MakeNode("c").Obj()
	notReady.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	for name, test := range map[string]struct {
		objects   []runtime.Object
		namespace string
		ends      *corev1.Pod
		fails     string
	}{
		"running provisioners are awaited":           {objects: []runtime.Object{daemonSet(), provisionerPod("a")}, ends: provisionerPod("a")},
		"those of one namespace are awaited":         {objects: []runtime.Object{daemonSet(), provisionerPod("a")}, namespace: "stowage-system", ends: provisionerPod("a")},
		"there is none":                              {},
		"only the DaemonSet exists":                  {objects: []runtime.Object{daemonSet()}},
		"one whose node is not ready is not awaited": {objects: []runtime.Object{daemonSet(), notReady, provisionerPod("c")}},
		"one that does not end is named":             {objects: []runtime.Object{provisionerPod("a")}, fails: provisionerPod("a").Name},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := cluster(test.objects...)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if test.ends != nil {
					endsOnceWatched(client, test.ends)
				}
				err := migrate.StopProvisioners(ctx, client, test.namespace)
				if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
					t.Errorf("error %v, want %q", err, test.fails)
				}
				if _, err := client.AppsV1().DaemonSets("stowage-system").Get(t.Context(), "stowage-provisioner", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("the DaemonSet: %v", err)
				}
			})
		})
	}
}

// TestStopCleaners: the provisioners' cleaning Jobs are deleted with their pods, which are
// awaited. Other Jobs of the namespace are not deleted.
func TestStopCleaners(t *testing.T) {
	notReady := builders.MakeNode("c").Obj()
	notReady.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	complete := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	others := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "stowage-system", Name: "stowage-release", UID: "others"}}
	for name, test := range map[string]struct {
		objects []runtime.Object
		ends    *corev1.Pod
		fails   string
		deleted []string
	}{
		"there is none":                     {objects: []runtime.Object{others}},
		"its pod is awaited":                {objects: []runtime.Object{others, ourJob("v", "a"), ourPod("v", "a", corev1.PodRunning)}, ends: ourPod("v", "a", ""), deleted: []string{"clean-uid-v"}},
		"a pod without its Job is awaited":  {objects: []runtime.Object{ourPod("v", "a", corev1.PodRunning)}, ends: ourPod("v", "a", "")},
		"one that does not end is named":    {objects: []runtime.Object{ourJob("v", "a"), ourPod("v", "a", corev1.PodRunning)}, fails: "clean-uid-v-x", deleted: []string{"clean-uid-v"}},
		"one that has ended is deleted too": {objects: []runtime.Object{ourJob("v", "a", complete), ourPod("v", "a", corev1.PodSucceeded)}, deleted: []string{"clean-uid-v"}},
		"the Job of a lost node is deleted": {objects: []runtime.Object{notReady, ourJob("v", "c"), ourPod("v", "c", corev1.PodRunning)}, deleted: []string{"clean-uid-v"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := cluster(test.objects...)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if test.ends != nil {
					endsAfterJobs(client, test.ends)
				}
				err := migrate.StopProvisioners(ctx, client, "")
				if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
					t.Errorf("error %v, want %q", err, test.fails)
				}
				var deleted []string
				for _, action := range client.Actions() {
					gone, ok := action.(clienttesting.DeleteActionImpl)
					if !ok || gone.Resource.Resource != "jobs" {
						continue
					}
					deleted = append(deleted, gone.Name)
					if how := gone.DeleteOptions.PropagationPolicy; how == nil || *how != metav1.DeletePropagationForeground {
						t.Errorf("Job %s is deleted before its pod: %v", gone.Name, how)
					}
				}
				if !slices.Equal(deleted, test.deleted) {
					t.Errorf("deleted Jobs %q, want %q", deleted, test.deleted)
				}
			})
		})
	}
}

// endsAfterJobs ends a pod when no Job is left and pods are watched, and not before.
func endsAfterJobs(client *fake.Clientset, pod *corev1.Pod) {
	client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		events, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		_, there := client.Tracker().Get(batchv1.SchemeGroupVersion.WithResource("jobs"), pod.Namespace, "clean-uid-v")
		if err == nil && apierrors.IsNotFound(there) {
			if gone := client.Tracker().Delete(action.GetResource(), pod.Namespace, pod.Name); gone != nil && !apierrors.IsNotFound(gone) {
				err = gone
			}
		}
		return true, events, err
	})
}

// TestWithdraw: volumes without a claim are deleted, others are not.
func TestWithdraw(t *testing.T) {
	uninstall := migrate.ReleaseOptions{All: true, Withdraw: true}
	for name, test := range map[string]struct {
		pv      *corev1.PersistentVolume
		refused error
		deleted bool
		want    error
	}{
		"free":                            {pv: ours(corev1.VolumeAvailable, ""), deleted: true},
		"reserved for a claim":            {pv: ours(corev1.VolumeAvailable, "claim")},
		"bound":                           {pv: ours(corev1.VolumeBound, "claim")},
		"released and not cleaned":        {pv: ours(corev1.VolumeReleased, "claim")},
		"a claim is bound to it just now": {pv: ours(corev1.VolumeAvailable, ""), refused: apierrors.NewConflict(corev1.Resource("persistentvolumes"), "v", errors.New("changed")), want: migrate.ErrChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := cluster(test.pv)
			if test.refused != nil {
				client.PrependReactor("delete", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, test.refused
				})
			}
			held, err := migrate.FindHeld(t.Context(), client, uninstall)
			if err != nil || len(held) != 1 {
				t.Fatalf("held are %+v, %v", held, err)
			}
			if err := migrate.Release(t.Context(), client, &held[0]); !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			pv, err := client.CoreV1().PersistentVolumes().Get(t.Context(), "v", metav1.GetOptions{})
			if deleted := apierrors.IsNotFound(err); deleted != test.deleted {
				t.Errorf("the volume is deleted: %v, want %v", deleted, test.deleted)
			}
			if err == nil && len(pv.Finalizers) > 0 {
				t.Errorf("the volume has finalizers %v", pv.Finalizers)
			}
		})
	}
}
