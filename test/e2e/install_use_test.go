// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// rolledOut waits until all installed components run, and checks that their images are of a
// registry and a tag.
func (s *empty) rolledOut(registry, tag string) {
	s.T.Helper()
	s.Do(install.RolledOut(s.Context, s.Cluster))
	pods, err := s.Client.CoreV1().Pods("").List(s.Context, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=stowage"})
	s.Do(err)
	var got []string
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			got = append(got, pod.Spec.Containers[0].Image)
		}
	}
	var want []string
	for _, part := range parts {
		tag, err := install.ImageTag(part, tag)
		s.Do(err)
		want = append(want, registry+"/"+part+":"+tag)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		s.T.Fatalf("images of the pods (-want +got):\n%s", diff)
	}
}

// useVolume waits until there are as many free volumes, and runs a pod that claims and writes one.
// The pod and the claim have the same name.
func (s *empty) useVolume(name string, free int) {
	s.T.Helper()
	available := map[string]bool{}
	s.WaitPV("", fmt.Sprintf("one of %d that are free", free), func(pv *corev1.PersistentVolume) bool {
		available[pv.Name] = pv.Status.Phase == corev1.VolumeAvailable
		count := 0
		for _, is := range available {
			if is {
				count++
			}
		}
		return count == free
	})
	pod := s.Shell(name, "echo written by "+name+" >/data/"+name+"/word && sync && exec sleep 1000000", name)
	pod.Spec.SchedulerName = "stowage-scheduler"
	s.Create(s.Claim(name, "local-disks"), pod)
	s.WaitPod(name, "ready", frame.Ready)
}

// look is what neither an upgrade nor an uninstall may change of a workload.
func (s *empty) look(names ...string) map[string]string {
	s.T.Helper()
	seen := map[string]string{}
	for _, name := range names {
		pod, err := s.Client.CoreV1().Pods(s.Namespace).Get(s.Context, name, metav1.GetOptions{})
		s.Do(err)
		if len(pod.Status.ContainerStatuses) != 1 {
			s.T.Fatalf("pod %s has no container: %v", name, pod.Status)
		}
		seen["pod "+name] = fmt.Sprint(pod.UID, pod.Status.Phase, pod.Status.ContainerStatuses[0].ContainerID)
		pv := s.volumeOf(name)
		seen["volume of "+name] = fmt.Sprint(pv.UID, pv.Name, pv.Spec.Local.Path, pv.Status.Phase)
		seen["data of "+name] = s.Exec(name, "cat", "/data/"+name+"/word")
	}
	return seen
}

func (s *empty) same(before, after map[string]string) {
	s.T.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		s.T.Errorf("the workload has changed (-before +after):\n%s", diff)
	}
}

// volumeOf is the volume that a claim has.
func (s *empty) volumeOf(claim string) *corev1.PersistentVolume {
	s.T.Helper()
	c, err := s.Client.CoreV1().PersistentVolumeClaims(s.Namespace).Get(s.Context, claim, metav1.GetOptions{})
	s.Do(err)
	pv, err := s.Client.CoreV1().PersistentVolumes().Get(s.Context, c.Spec.VolumeName, metav1.GetOptions{})
	s.Do(err)
	return pv
}

// released compares the output of an uninstall's Job with the volumes before.
func (s *empty) released(printed string) {
	s.T.Helper()
	for _, text := range []string{s.volumeOf("early").Name, s.volumeOf("late").Name, "data of its claim", "Released 3."} {
		if !strings.Contains(printed, text) {
			s.T.Errorf("the Job did not print %q:\n%s", text, printed)
		}
	}
}

// removeAll deletes pods, their claims, and then their volumes, which must be all that exist.
// Their data is still on the disks.
func (s *empty) removeAll(names ...string) {
	s.T.Helper()
	var volumes []string
	data := map[string]string{}
	for _, name := range names {
		pv := s.volumeOf(name)
		volumes = append(volumes, pv.Name)
		data[pv.Spec.Local.Path] = "written by " + name + "\n"
	}
	all, err := s.Client.CoreV1().PersistentVolumes().List(s.Context, metav1.ListOptions{})
	s.Do(err)
	for _, pv := range all.Items {
		if !slices.Contains(volumes, pv.Name) || !slices.Equal(pv.Finalizers, []string{"kubernetes.io/pv-protection"}) {
			s.T.Errorf("volume %s is left with finalizers %q", pv.Name, pv.Finalizers)
		}
	}
	s.Kubectl(append([]string{"delete", "pods"}, names...)...)
	s.Kubectl(append([]string{"delete", "persistentvolumeclaims"}, names...)...)
	s.kubectl(append([]string{"delete", "persistentvolumes"}, volumes...)...) // returns when they are deleted
	for path, want := range data {
		if got := on(s.Env, s.node, "cat "+path+"/word"); got != want {
			s.T.Errorf("disk %s has %q, want %q", path, got, want)
		}
	}
}
