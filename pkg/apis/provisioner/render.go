// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Data renders the configuration as the data of a ConfigMap, with all defaults. Parse returns
// an equal configuration for it. Keys that must be off are omitted.
func (c *Config) Data() (map[string]string, error) {
	classes := map[string]any{}
	for _, class := range c.Classes {
		classes[class.Name] = class.values()
	}
	values := map[string]any{
		classMapKey:         classes,
		useJobsKey:          c.UseJobForCleaning,
		"minResyncPeriod":   c.MinResyncPeriod.String(),
		"useNodeNameOnly":   c.UseNodeNameOnly,
		removeTaintKey:      c.RemoveNodeNotReadyTaint,
		"maxCleaning":       c.MaxCleaning,
		"maxBlankProofs":    c.MaxBlankProofs,
		"blankProofRate":    resource.NewQuantity(c.BlankProofRate, resource.BinarySI).String(),
		"probeTimeout":      c.ProbeTimeout.String(),
		"orphanGracePeriod": c.OrphanGracePeriod.String(),
	}
	putUnless(values, "nodeLabelsForPV", c.NodeLabelsForPV, len(c.NodeLabelsForPV) == 0)
	putUnless(values, "labelsForPV", c.LabelsForPV, len(c.LabelsForPV) == 0)
	putUnless(values, "jobTolerations", c.JobTolerations, len(c.JobTolerations) == 0)
	putUnless(values, taintKeyKey, c.NodeNotReadyTaintKey, c.NodeNotReadyTaintKey == "")

	data := map[string]string{}
	for key, value := range values {
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", key, err)
		}
		data[key] = string(text)
	}
	return data, nil
}

func (c *Class) values() map[string]any {
	values := map[string]any{
		"hostDir":             c.HostDir,
		"mountDir":            c.MountDir,
		"volumeMode":          c.VolumeMode,
		"accessMode":          c.AccessMode,
		"namePattern":         strings.Join(c.NamePatterns, ","),
		"blockCleanerCommand": c.BlockCleaner.Command(),
		"cleanTimeout":        c.CleanTimeout.String(),
		"existingData":        c.ExistingData,
		"allowDirectories":    len(c.DirectoryPatterns) > 0,
		"volumeName":          c.VolumeName,
	}
	putUnless(values, "fsType", c.FSType, c.FSType == "")
	putUnless(values, "fsCleanerCommand", c.FilesystemCleaner.Command(), len(c.FilesystemCleaner.Command()) == 0)
	putUnless(values, "directoryPattern", strings.Join(c.DirectoryPatterns, ","), len(c.DirectoryPatterns) == 0)
	return values
}

func putUnless(values map[string]any, key string, value any, absent bool) {
	if !absent {
		values[key] = value
	}
}
