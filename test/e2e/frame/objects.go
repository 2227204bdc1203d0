// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"context"

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
		switch x := object.(type) {
		case *corev1.Pod:
			x.Namespace = e.Namespace
			create(e, e.Client.CoreV1().Pods(e.Namespace), x)
		case *corev1.PersistentVolumeClaim:
			x.Namespace = e.Namespace
			create(e, e.Client.CoreV1().PersistentVolumeClaims(e.Namespace), x)
		case *corev1.PersistentVolume:
			create(e, e.Client.CoreV1().PersistentVolumes(), x)
		case *storagev1.StorageClass:
			create(e, e.Client.StorageV1().StorageClasses(), x)
		default:
			e.T.Fatalf("create a %T: not one of the kinds that Env.Create knows", object)
		}
	}
}

// client is what create needs of the client of a kind.
type client[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// create creates an object, and deletes it after the test if it is in no namespace.
func create[T metav1.Object](e *Env, in client[T], object T) {
	e.T.Helper()
	if _, err := in.Create(e.Context, object, metav1.CreateOptions{}); err != nil {
		e.T.Fatalf("create a %T: %v", object, err)
	}
	if object.GetNamespace() != "" {
		return
	}
	e.after(func(ctx context.Context) error {
		_ = in.Delete(ctx, object.GetName(), metav1.DeleteOptions{}) // the test may have deleted it
		return nil
	})
}

// Class is a class of volumes that wait for their first consumer. name is a whole one.
func (e *Env) Class(name string) *storagev1.StorageClass {
	return builders.MakeClass(name).Obj()
}

// LocalVolume is a volume of a class at a path of a node, by its short name. name is short too.
func (e *Env) LocalVolume(name, class, node, path string) *corev1.PersistentVolume {
	source := corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
	return builders.MakePV(e.Name(name)).Class(class).Source(source).Hostname(e.Name(node)).Obj()
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
