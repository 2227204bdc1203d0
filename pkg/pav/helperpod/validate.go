// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package helperpod

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"stowage.dev/stowage/pkg/pav/report"
)

// validate returns what a template has that would conflict with the reporter or with the life of
// helper pods. Whether the pod is valid otherwise is for the API server.
func validate(t *corev1.PodTemplateSpec, c Config) field.ErrorList {
	root := c.Step.template()
	errs := validateMetadata(t, c, root.Child("metadata"))
	if (c.Step == Staging) != (c.Volume != nil) {
		errs = append(errs, field.InternalError(root, errors.New("staging pods, and no others, have a volume")))
	}
	spec, at := &t.Spec, root.Child("spec")
	if !c.Step.runs() && spec.RestartPolicy == corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(at.Child("restartPolicy"), spec.RestartPolicy,
			[]corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure}))
	}
	if c.Step.runs() && spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(at.Child("activeDeadlineSeconds"), "would end the pod while its volume is used"))
	}
	if c.Node != "" && spec.NodeName != "" {
		errs = append(errs, field.Forbidden(at.Child("nodeName"), "the pod is scheduled to the node of the volume: use nodeSelector or affinity for other conditions"))
	}
	if spec.OS != nil && spec.OS.Name != corev1.Linux {
		errs = append(errs, field.NotSupported(at.Child("os", "name"), spec.OS.Name, []corev1.OSName{corev1.Linux}))
	}
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(at.Child("ephemeralContainers"), "a template cannot have them"))
	}
	for i, volume := range spec.Volumes {
		if volume.Name == volumeName {
			errs = append(errs, field.Forbidden(at.Child("volumes").Index(i).Child("name"), fmt.Sprintf("%q is the volume that is mounted at %s", volumeName, directory)))
		}
	}
	for i := range spec.InitContainers {
		errs = append(errs, validateContainer(&spec.InitContainers[i], at.Child("initContainers").Index(i))...)
	}
	for i := range spec.Containers {
		container, at := &spec.Containers[i], at.Child("containers").Index(i)
		errs = append(errs, validateContainer(container, at)...)
		if r := container.RestartPolicy; !c.Step.runs() && r != nil && *r == corev1.ContainerRestartPolicyAlways {
			errs = append(errs, field.NotSupported(at.Child("restartPolicy"), *r,
				[]corev1.ContainerRestartPolicy{corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure}))
		}
	}
	if n := containersOf(spec); n > report.MaxContainers {
		errs = append(errs, field.TooMany(at.Child("containers"), n-1, report.MaxContainers-1)) // init containers included
	}
	return errs
}

func validateMetadata(t *corev1.PodTemplateSpec, c Config, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Namespace != "" && t.Namespace != c.Namespace && !slices.Contains(c.Namespaces, t.Namespace) {
		errs = append(errs, field.NotSupported(at.Child("namespace"), t.Namespace, append([]string{c.Namespace}, c.Namespaces...)))
	}
	if len(t.OwnerReferences) > 0 {
		errs = append(errs, field.Forbidden(at.Child("ownerReferences"), "the only owner is the volume"))
	}
	if len(t.Finalizers) > 0 {
		errs = append(errs, field.Forbidden(at.Child("finalizers"), "would keep the pod after its step"))
	}
	for key := range t.Labels {
		if domain, _, _ := strings.Cut(key, "/"); domain == "stowage.dev" {
			errs = append(errs, field.Forbidden(at.Child("labels").Key(key), "labels of stowage.dev are for the controller"))
		}
	}
	for key := range t.Annotations {
		if strings.HasSuffix(key, "/"+ReporterName) {
			errs = append(errs, field.Forbidden(at.Child("annotations").Key(key), "is for the reporter's container"))
		}
	}
	return errs
}

// validateContainer checks a container for the reporter's name, and for paths that would hide
// /pav, or a part of it, from the reporter.
func validateContainer(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Name == ReporterName {
		errs = append(errs, field.Forbidden(at.Child("name"), "is the name of the reporter's container"))
	}
	check := func(at *field.Path, mounted string) {
		// Kubelet takes relative paths as relative to the root.
		if p := path.Join("/", mounted); p == directory || strings.HasPrefix(p, directory+"/") {
			errs = append(errs, field.Forbidden(at, directory+" is the directory that all containers share: choose a path outside of it"))
		}
	}
	for i, mount := range c.VolumeMounts {
		check(at.Child("volumeMounts").Index(i).Child("mountPath"), mount.MountPath)
	}
	for i, device := range c.VolumeDevices {
		check(at.Child("volumeDevices").Index(i).Child("devicePath"), device.DevicePath)
	}
	check(at.Child("terminationMessagePath"), c.TerminationMessagePath)
	return errs
}
