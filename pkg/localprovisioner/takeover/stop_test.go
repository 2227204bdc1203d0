// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"stowage.dev/stowage/pkg/localprovisioner/takeover"
	"stowage.dev/stowage/pkg/testing/builders"
)

// agentSet is the agents' DaemonSet.
func agentSet() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "stowage-system", Name: "stowage-provisioner"}}
}

// endsOnceWatched has a pod end as soon as pods are watched, and not before.
func endsOnceWatched(client *fake.Clientset, pod *corev1.Pod) {
	client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		events, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		if err == nil {
			err = client.Tracker().Delete(action.GetResource(), pod.Namespace, pod.Name)
		}
		return true, events, err
	})
}

func TestStopAgents(t *testing.T) {
	notReady := builders.MakeNode("c").Obj()
	notReady.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	for name, test := range map[string]struct {
		objects []runtime.Object
		ends    *corev1.Pod
		fails   string
	}{
		"agents that run are waited for":                  {objects: []runtime.Object{agentSet(), agentPod("a")}, ends: agentPod("a")},
		"none is there":                                   {},
		"only the DaemonSet is":                           {objects: []runtime.Object{agentSet()}},
		"nobody waits for one whose node does not answer": {objects: []runtime.Object{agentSet(), notReady, agentPod("c")}},
		"one that does not end is named":                  {objects: []runtime.Object{agentPod("a")}, fails: agentPod("a").Name},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := cluster(test.objects...)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if test.ends != nil {
					endsOnceWatched(client, test.ends)
				}
				err := takeover.StopAgents(ctx, client)
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

// TestWithdraw: volumes that nobody has claimed are deleted, others are not.
func TestWithdraw(t *testing.T) {
	uninstall := takeover.ReleaseOptions{All: true, Withdraw: true}
	for name, test := range map[string]struct {
		pv      *corev1.PersistentVolume
		refused error
		deleted bool
		want    error
	}{
		"free":                        {pv: ours(corev1.VolumeAvailable, ""), deleted: true},
		"reserved for a claim":        {pv: ours(corev1.VolumeAvailable, "claim")},
		"bound":                       {pv: ours(corev1.VolumeBound, "claim")},
		"released and not cleaned":    {pv: ours(corev1.VolumeReleased, "claim")},
		"somebody claims it just now": {pv: ours(corev1.VolumeAvailable, ""), refused: apierrors.NewConflict(corev1.Resource("persistentvolumes"), "v", errors.New("changed")), want: takeover.ErrChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := cluster(test.pv)
			if test.refused != nil {
				client.PrependReactor("delete", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, test.refused
				})
			}
			held, err := takeover.FindHeld(t.Context(), client, uninstall)
			if err != nil || len(held) != 1 {
				t.Fatalf("held are %+v, %v", held, err)
			}
			if err := takeover.Release(t.Context(), client, &held[0]); !errors.Is(err, test.want) {
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
