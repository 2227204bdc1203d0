// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/integration/node"
)

// forge creates a volume marked as the node's provisioner's, with a claim that does not
// exist, so that it is Released at once.
func forge(n *node.Node, name, path string) {
	if err := tryForge(n, name, path); err != nil {
		n.Env.T.Fatal(err)
	}
}

func tryForge(n *node.Node, name, path string) error {
	volume := n.Env.PV(name).Class(n.Files).Hostname(n.Name).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).
		Source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}).Obj()
	metav1.SetMetaDataLabel(&volume.ObjectMeta, wellknown.NodeLabel, localpv.NodeHash(n.Name))
	metav1.SetMetaDataAnnotation(&volume.ObjectMeta, wellknown.NodeNameAnnotation, n.Name)
	metav1.SetMetaDataAnnotation(&volume.ObjectMeta, localpv.ProvisionedByAnnotation, localpv.ProvisionedBy(n.Name))
	volume.Finalizers = append(volume.Finalizers, wellknown.LocalVolumeFinalizer)
	volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: n.Env.Namespace, Name: "none", UID: "none"}
	_, err := n.Env.Client.CoreV1().PersistentVolumes().Create(n.Env.Context(), volume, metav1.CreateOptions{})
	return err
}
