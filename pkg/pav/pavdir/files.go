// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavdir

// Name is the name of an entry of /pav that has a meaning.
type Name string

// The names.
const (
	Handle     Name = "handle"
	Capacity   Name = "capacity"
	Error      Name = "error"
	Reschedule Name = "reschedule"
	Volume     Name = "volume"
	Ready      Name = "ready"
)

// File describes an entry of /pav, for docs/pav-reference.md.
type File struct {
	Name Name
	// Steps are those in whose pods the entry has the meaning, as users read them.
	Steps   string
	Meaning string
}

// Files returns the description of all entries.
func Files() []File {
	return []File{
		{Handle, "creation", "the handle of the volume, if `volumeCreation.handle` is not set; text of at most 128 bytes"},
		{Capacity, "creation", "the capacity of the volume, if `volumeCreation.capacity` is not set: a quantity of bytes such as `1073741824` or `1Gi`"},
		{Error, "all", "why the pod fails: text for events, conditions and `status.lastError`. It is read only if the pod fails, and shortened to what fits into the pod's status"},
		{Reschedule, "creation", "of any content: if the pod fails, and a node was selected for the claim, the scheduler selects a node again"},
		{Volume, "staging", "the volume: a directory for the volume mode Filesystem, a block device of at least the volume's capacity for Block, or a link to one of these in `/pav`"},
		{Ready, "staging", "of any content: `/pav/volume` is available, and the pod continues to run. A pod that succeeds needs no such file"},
	}
}
