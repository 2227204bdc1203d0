// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// verdict is what to do about a request: create the Job, wait, or reject it.
type verdict struct {
	order        cleanjob.Order
	settings     cleanjob.Settings
	wait, refuse *disk.Problem
}

// approve decides about a request. It reads the volume from the API server: with a stale volume a
// disk in use could be cleaned.
func (c *Controller) approve(ctx context.Context, r cleanjob.Request) (verdict, error) {
	config, problem := c.configuration()
	if problem != nil {
		return verdict{wait: problem}, nil
	}
	if !config.UseJobForCleaning {
		return verdict{refuse: disk.Problemf(cleanjob.JobsNotConfigured, "useJobForCleaning is off in ConfigMap %s/%s", c.Namespace, c.ConfigMap)}, nil
	}
	settings, problem := c.jobSettings(config)
	if problem != nil {
		return verdict{wait: problem}, nil
	}
	volume, err := c.volume(ctx, r, config)
	if err != nil {
		return verdict{}, err
	}
	order, problem := cleanjob.Approve(r, volume, classOf(config, volume))
	return verdict{order: order, settings: settings, refuse: problem}, nil
}

// configuration returns the provisioner's configuration, or why it is not available.
func (c *Controller) configuration() (*provisioner.ProvisionerConfiguration, *disk.Problem) {
	configMap, err := c.settings.Core().V1().ConfigMaps().Lister().ConfigMaps(c.Namespace).Get(c.ConfigMap)
	if err != nil {
		return nil, disk.Problemf(badConfig, "ConfigMap %s/%s, which has the provisioner's configuration, does not exist", c.Namespace, c.ConfigMap)
	}
	config, err := provisioner.Decode(configMap.Data)
	if err != nil {
		return nil, disk.Problemf(badConfig, "ConfigMap %s/%s is not valid: %v", c.Namespace, c.ConfigMap, err)
	}
	return config, nil
}

// jobSettings returns what all Jobs have in common, or why it is not known. The image is the
// provisioner's, unless another one is configured.
func (c *Controller) jobSettings(config *provisioner.ProvisionerConfiguration) (cleanjob.Settings, *disk.Problem) {
	settings := cleanjob.Settings{Namespace: c.Namespace, Image: c.Image, Tolerations: config.JobTolerations}
	daemonSet, err := c.provisioners.Apps().V1().DaemonSets().Lister().DaemonSets(c.Namespace).Get(c.DaemonSet)
	if err == nil {
		settings.PullSecrets = daemonSet.Spec.Template.Spec.ImagePullSecrets
		if containers := daemonSet.Spec.Template.Spec.Containers; len(containers) > 0 && c.Image == "" {
			named := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "provisioner" })
			container := &containers[max(named, 0)]
			settings.Image, settings.PullPolicy = container.Image, container.ImagePullPolicy
		}
	}
	if settings.Image == "" {
		return settings, disk.Problemf(noImage, "Jobs run the provisioner's image, but DaemonSet %s/%s, which names it, does not exist", c.Namespace, c.DaemonSet)
	}
	return settings, nil
}

// volume returns the volume of a request; nil if it does not exist or is not of the node.
func (c *Controller) volume(ctx context.Context, r cleanjob.Request, config *provisioner.ProvisionerConfiguration) (*disk.Volume, error) {
	if r.Volume == "" {
		return nil, nil
	}
	pv, err := c.Client.CoreV1().PersistentVolumes().Get(ctx, r.Volume, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !localpv.Owned(pv, r.Node) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get volume %s: %w", r.Volume, err)
	}
	volume, problem := localpv.VolumeOf(pv, config.Directories())
	if problem != nil {
		return nil, nil
	}
	return &volume, nil
}

// classOf returns the configuration of a volume's class; nil if it is not configured.
func classOf(config *provisioner.ProvisionerConfiguration, volume *disk.Volume) *cleanjob.Class {
	if volume == nil {
		return nil
	}
	class, configured := config.Classes[volume.Key.Class]
	if !configured {
		return nil
	}
	return &cleanjob.Class{
		HostDir: class.HostDir, DeviceCommand: class.BlockCleanerCommand, FilesCommand: class.FSCleanerCommand, Timeout: class.CleanTimeout.Duration,
	}
}
