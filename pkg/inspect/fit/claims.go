// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Claims is a set of pods that need nothing but claims.
type Claims struct {
	// Claims is a list of SIZE[:CLASS[:MODE...]], separated by commas. A class that is not given is the default
	// one. A mode is Block or an access mode.
	Claims string
	// Namespace is where the pods would be, Scheduler the spec.schedulerName.
	Namespace, Scheduler string
	// OnePerNode: no two of the pods run on a node.
	OnePerNode bool
}

// modes are the access modes by what users write, in lower case.
var modes = map[string]corev1.PersistentVolumeAccessMode{
	"rwo": corev1.ReadWriteOnce, "readwriteonce": corev1.ReadWriteOnce,
	"rox": corev1.ReadOnlyMany, "readonlymany": corev1.ReadOnlyMany,
	"rwx": corev1.ReadWriteMany, "readwritemany": corev1.ReadWriteMany,
	"rwop": corev1.ReadWriteOncePod, "readwriteoncepod": corev1.ReadWriteOncePod,
}

// Workload returns the pods as a workload: a StatefulSet without object.
func (c Claims) Workload() (*Workload, error) {
	const label = "app.kubernetes.io/name"
	w := &Workload{Namespace: c.Namespace, Name: "fit", Replicas: 1}
	w.Template.Labels = map[string]string{label: w.Name}
	w.Template.Spec = corev1.PodSpec{
		SchedulerName: c.Scheduler,
		Containers:    []corev1.Container{{Name: "fit", Image: "fit"}},
	}
	if c.OnePerNode {
		w.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: w.Template.Labels},
			}},
		}}
	}
	for i, text := range strings.Split(c.Claims, ",") {
		claim, err := parseClaim(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		claim.Name = fmt.Sprintf("claim-%d", i+1)
		w.claims = append(w.claims, *claim)
	}
	return w, nil
}

func parseClaim(text string) (*corev1.PersistentVolumeClaim, error) {
	fields := strings.Split(text, ":")
	size, err := resource.ParseQuantity(fields[0])
	if err != nil {
		return nil, fmt.Errorf("%q: the size must be a quantity, such as 10Gi or 10Gi:local-disks", text)
	}
	if size.Sign() <= 0 {
		return nil, fmt.Errorf("%q: the size must be more than 0", text)
	}
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	if len(fields) > 1 && fields[1] != "" {
		claim.Spec.StorageClassName = &fields[1]
	}
	for _, field := range fields[min(2, len(fields)):] {
		mode, known := modes[strings.ToLower(field)]
		switch {
		case strings.EqualFold(field, string(corev1.PersistentVolumeBlock)):
			claim.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
		case known:
			claim.Spec.AccessModes = append(claim.Spec.AccessModes, mode)
		default:
			return nil, fmt.Errorf("%q: %q must be Block, RWO, ROX, RWX or RWOP", text, field)
		}
	}
	if claim.Spec.AccessModes == nil {
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	return claim, nil
}
