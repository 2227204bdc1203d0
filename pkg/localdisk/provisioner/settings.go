// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"path"

	"stowage.dev/stowage/pkg/apis/provisioner"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// settings is a configuration, indexed. It is read-only.
type settings struct {
	*provisioner.Config
	classes map[string]*provisioner.Class
	// directories has the discovery directory of each class, as a path on the node.
	directories map[string]string
	folders     []disk.Folder
}

func newSettings(config *provisioner.Config) *settings {
	s := &settings{Config: config, classes: map[string]*provisioner.Class{}, directories: map[string]string{}}
	for i := range config.Classes {
		class := &config.Classes[i]
		s.classes[class.Name] = class
		s.directories[class.Name] = class.HostDir
		s.folders = append(s.folders, disk.Folder{
			Class:       class.Name,
			HostPath:    class.HostDir,
			Path:        class.MountDir,
			Names:       class.NamePatterns,
			Directories: class.DirectoryPatterns,
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
