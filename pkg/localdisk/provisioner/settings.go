// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"maps"
	"path"
	"slices"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// settings is a configuration, indexed. It is read-only.
type settings struct {
	*provisioner.ProvisionerConfiguration
	// directories has the discovery directory of each class, as a path on the node.
	directories map[string]string
	folders     []disk.Folder
}

func newSettings(config *provisioner.ProvisionerConfiguration) *settings {
	s := &settings{ProvisionerConfiguration: config, directories: config.Directories()}
	for _, name := range slices.Sorted(maps.Keys(config.Classes)) {
		class := config.Classes[name]
		s.folders = append(s.folders, disk.Folder{
			Class:       name,
			HostPath:    class.HostDir,
			Path:        class.MountDir,
			Names:       class.NamePatterns(),
			Directories: class.DirectoryPatterns(),
			Mode:        disk.Mode(class.VolumeMode),
		})
	}
	return s
}

// current returns the configuration in force.
func (p *Provisioner) current() *settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

// class returns the configuration of a class; nil if it is not configured.
func (s *settings) class(name string) *provisioner.Class {
	if class, ok := s.Classes[name]; ok {
		return &class
	}
	return nil
}

// keyOf returns the slot of a path; false if the path is in no discovery directory.
func (s *settings) keyOf(hostPath string) (disk.Key, bool) {
	folder, name := path.Dir(hostPath), path.Base(hostPath)
	for class, directory := range s.directories {
		if directory == folder {
			return disk.Key{Class: class, Name: name}, true
		}
	}
	return disk.Key{}, false
}
