// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"path"
	"slices"
	"strings"
	"time"

	"stowage.dev/stowage/pkg/apis/provisioner"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// settings is a configuration in the agent's own terms. It is read-only.
type settings struct {
	*provisioner.Config
	classes map[string]*provisioner.Class
	// directories has the discovery directory on the node of each class.
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

// keyOf is the slot of a path; false if the path is in no discovery directory.
func (s *settings) keyOf(hostPath string) (disk.Key, bool) {
	folder, name := path.Dir(hostPath), path.Base(hostPath)
	for class, directory := range s.directories {
		if directory == folder {
			return disk.Key{Class: class, Name: name}, true
		}
	}
	return disk.Key{}, false
}

// named says whether a class that is configured asks for a slot's name.
func (s *settings) named(key disk.Key) bool {
	return slices.ContainsFunc(s.classes[key.Class].NamePatterns, func(pattern string) bool {
		ok, err := path.Match(pattern, key.Name)
		return ok && err == nil
	})
}

// existing is what a class wants done with data that is found.
func existing(class *provisioner.Class) decide.Existing {
	switch class.ExistingData {
	case provisioner.ExistingDataPublish:
		return decide.ExistingPublish
	case provisioner.ExistingDataClean:
		return decide.ExistingClean
	case provisioner.ExistingDataAssumeBlank:
		return decide.ExistingAssumeBlank
	default:
		return decide.ExistingRefuse
	}
}

// firstGeneration is the generation of the first volume of a disk that was first seen
// at since. The names of Reference have none, and begin at the lowest. Otherwise it must
// be higher than any that a record knew which has been lost, and another one than the
// disk had that was there before it, so it is the time, in milliseconds: looks are
// further apart than that.
func firstGeneration(class *provisioner.Class, since time.Time) int64 {
	if class != nil && class.VolumeName == provisioner.VolumeNameReference {
		return localpv.FirstGeneration
	}
	return max(since.UnixMilli(), localpv.FirstGeneration)
}

// cleanerOf is the command that cleans a disk of the class.
func cleanerOf(class *provisioner.Class, kind disk.Kind) []string {
	if kind == disk.Device {
		return class.BlockCleaner.Command()
	}
	return class.FilesystemCleaner.Command()
}

// cleanerName is what metrics and events call a command.
func cleanerName(command []string) string {
	if len(command) == 0 {
		return "remove files"
	}
	return strings.Join(command, " ")
}
