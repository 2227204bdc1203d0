// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster/realnode"
)

// Create creates pods and claims in the test's namespace, and volumes and classes, which are
// deleted after the test.
func (e *Env) Create(objects ...runtime.Object) {
	e.T.Helper()
	for _, object := range objects {
		if err := e.create(object); err != nil {
			e.T.Fatal(err)
		}
	}
}

func (e *Env) create(object runtime.Object) error {
	var err error
	o := metav1.CreateOptions{}
	switch x := object.(type) {
	case *corev1.Pod:
		x.Namespace = e.Namespace
		_, err = e.Client.CoreV1().Pods(e.Namespace).Create(e.Context, x, o)
	case *corev1.PersistentVolumeClaim:
		x.Namespace = e.Namespace
		_, err = e.Client.CoreV1().PersistentVolumeClaims(e.Namespace).Create(e.Context, x, o)
	case *corev1.PersistentVolume:
		_, err = e.Client.CoreV1().PersistentVolumes().Create(e.Context, x, o)
		e.after(func(ctx context.Context) error {
			return e.Client.CoreV1().PersistentVolumes().Delete(ctx, x.Name, metav1.DeleteOptions{})
		})
	case *storagev1.StorageClass:
		_, err = e.Client.StorageV1().StorageClasses().Create(e.Context, x, o)
		e.after(func(ctx context.Context) error {
			return e.Client.StorageV1().StorageClasses().Delete(ctx, x.Name, metav1.DeleteOptions{})
		})
	default:
		return fmt.Errorf("create a %T: not one of the kinds that Env.Create knows", object)
	}
	if err != nil {
		return fmt.Errorf("create a %T: %w", object, err)
	}
	return nil
}

// after deletes an object when the test has ended. An object that is deleted already is no error.
func (e *Env) after(remove func(context.Context) error) {
	e.T.Cleanup(func() {
		e.dumpFailed()
		ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
		defer cancel()
		_ = remove(ctx)
	})
}

// Class is a class of volumes that wait for their first consumer. name is a whole one.
func (e *Env) Class(name string) *storagev1.StorageClass {
	return builders.MakeClass(name).Obj()
}

// LocalVolume is a volume of a class at a path of a node, by its short name. name is short too.
func (e *Env) LocalVolume(name, class, node, path string) *corev1.PersistentVolume {
	source := corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
	return builders.MakePV(e.Name(name)).Class(class).Source(source).Hostname(e.Name(node)).
		ReclaimPolicy(corev1.PersistentVolumeReclaimRetain).Obj()
}

// Claim requests a volume of a class, of any size.
func (e *Env) Claim(name, class string) *corev1.PersistentVolumeClaim {
	return builders.MakePVC(name).Namespace(e.Namespace).Class(class).Request("1").Obj()
}

// Shell is a pod that runs a shell script in busybox and has the volumes of claims mounted at
// /data/ and the claim's name. It ends within a second of being deleted, and is not restarted.
func (e *Env) Shell(name, script string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.Namespace},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64(1)),
			DNSPolicy:                     corev1.DNSDefault, // the cluster has no other
			Containers: []corev1.Container{{
				Name: "shell", Image: realnode.BusyboxImage, Command: []string{"/bin/sh", "-c", script},
			}},
		},
	}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
		c := &pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: claim, MountPath: "/data/" + claim})
	}
	return pod
}
