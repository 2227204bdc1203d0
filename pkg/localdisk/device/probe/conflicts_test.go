// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// at makes a fact of "class/name place identity"; bad gives it a problem.
func at(text string) disk.Fact {
	words := append(strings.Fields(text), "", "", "", "")
	class, name, _ := strings.Cut(words[0], "/")
	f := disk.Fact{Key: disk.Key{Class: class, Name: name}, HostPath: "/" + words[0], Place: words[1], Identity: disk.Identity(words[2])}
	if words[3] == "bad" {
		f.Problem = disk.Problemf(disk.ReadOnly, "bad")
	}
	return f
}

func volumeOf(text string) disk.Known {
	f := at(text)
	return disk.Known{Key: f.Key, Volume: "pv-" + f.Name, Identity: f.Identity, HostPath: f.HostPath}
}

func recordOf(text string) disk.Known {
	k := volumeOf(text)
	k.Volume = ""
	return k
}

// displaced is a volume whose path is not in the folder of its class.
func displaced(text string) disk.Known {
	k := volumeOf(text)
	k.Displaced = true
	return k
}

func TestResolveConflicts(t *testing.T) {
	tests := map[string]struct {
		facts []disk.Fact
		known []disk.Known
		want  map[string]disk.Reason
	}{
		"different disks": {
			facts: []disk.Fact{at("a/1 dev:8:0 wwn:0"), at("a/2 dev:8:16 wwn:1")},
			want:  map[string]disk.Reason{"a/1": "", "a/2": ""},
		},
		"the same place twice: by class, then by name": {
			facts: []disk.Fact{at("b/0 dev:8:0 wwn:0"), at("a/2 dev:8:0 wwn:0"), at("a/1 dev:8:0 wwn:0")},
			want:  map[string]disk.Reason{"a/1": "", "a/2": disk.SameBytes, "b/0": disk.SameBytes},
		},
		"a slot with a record precedes one without": {
			facts: []disk.Fact{at("a/1 dev:8:0 wwn:0"), at("b/1 dev:8:0 wwn:0")},
			known: []disk.Known{recordOf("b/1 . wwn:0")},
			want:  map[string]disk.Reason{"a/1": disk.SameBytes, "b/1": ""},
		},
		"a slot with a volume precedes one with a record": {
			facts: []disk.Fact{at("a/1 dev:8:0 wwn:0"), at("b/1 dev:8:0 wwn:0")},
			known: []disk.Known{recordOf("a/1 . wwn:0"), volumeOf("b/1")},
			want:  map[string]disk.Reason{"a/1": disk.SameBytes, "b/1": ""},
		},
		"the volume of the same disk precedes any other": {
			facts: []disk.Fact{at("a/1 dev:8:0 wwn:0"), at("b/1 dev:8:0 wwn:0")},
			known: []disk.Known{volumeOf("a/1 . wwn:7"), volumeOf("b/1 . wwn:0")},
			want:  map[string]disk.Reason{"a/1": disk.SameBytes, "b/1": ""},
		},
		"two paths of multipath, or a copy: one identity, two places": {
			facts: []disk.Fact{at("a/1 dev:8:0 wwn:0"), at("a/2 dev:8:16 wwn:0")},
			want:  map[string]disk.Reason{"a/1": disk.SharedIdentity, "a/2": disk.SharedIdentity},
		},
		"the entry of a volume may lead to the copy": {
			facts: []disk.Fact{at("a/1 dev:8:0 wwn:0"), at("a/2 dev:8:16 wwn:0 bad")},
			known: []disk.Known{volumeOf("a/1 . wwn:0")},
			want:  map[string]disk.Reason{"a/1": disk.SharedIdentity, "a/2": disk.ReadOnly},
		},
		"a file system and its copy": {
			facts: []disk.Fact{at("a/1 fs:8:1:/ fs:u:/"), at("a/2 fs:8:2:/ fs:u:/")},
			want:  map[string]disk.Reason{"a/1": "", "a/2": disk.SameBytes},
		},
		"a folder and its parent": {
			facts: []disk.Fact{at("a/1 fs:8:1:/x fs:u:/x"), at("a/2 fs:8:1:/x/y fs:u:/x/y"), at("a/3 fs:8:1:/xy fs:u:/xy"), at("a/4 fs:8:1:/ fs:u:/")},
			want:  map[string]disk.Reason{"a/1": "", "a/2": disk.InUse, "a/3": "", "a/4": disk.InUse},
		},
		"a slot with a problem blocks no other": {
			facts: []disk.Fact{at("a/1 dev:8:0 wwn:0 bad"), at("a/2 dev:8:0 wwn:0")},
			want:  map[string]disk.Reason{"a/1": disk.ReadOnly, "a/2": ""},
		},
		"a volume with a problem keeps its bytes": {
			facts: []disk.Fact{at("b/1 dev:8:0 wwn:0 bad"), at("a/2 dev:8:0 wwn:0")},
			known: []disk.Known{volumeOf("b/1 . wwn:0")},
			want:  map[string]disk.Reason{"b/1": disk.ReadOnly, "a/2": disk.SameBytes},
		},
		"a volume keeps its bytes if nothing is at its path": {
			facts: []disk.Fact{at("a/2 dev:8:0 wwn:0")},
			known: []disk.Known{volumeOf("b/1 . wwn:0")},
			want:  map[string]disk.Reason{"a/2": disk.SameBytes},
		},
		"its class has another folder now, or another class has it, and the disk is part of a volume of the former folder": {
			facts: []disk.Fact{at("b/2 dev:8:0 wwn:0"), at("c/1 dev:8:16 wwn:1"), at("b/3 dev:8:32 wwn:2")},
			known: []disk.Known{displaced("b/1 . wwn:0"), displaced("b/4 . wwn:1"), displaced("b/5 . part:wwn:2:uuid:1:2")},
			want:  map[string]disk.Reason{"b/2": "", "c/1": disk.SameBytes, "b/3": disk.InUse},
		},
		"a part of it is a volume, whose own slot does not answer": {
			facts: []disk.Fact{at("a/1 dev:8:0 wwn:0"), at("a/2 dev:7:0 weak:boot:9"), at("a/3 fs:8:1:/ fs:u:/"), at("a/4 dev:8:16 wwn:01")},
			known: []disk.Known{volumeOf("b/1 . part:wwn:0:uuid:1:2"), volumeOf("b/2 . weakpart:boot:9:1"), volumeOf("b/3 . fs:u:/x")},
			want:  map[string]disk.Reason{"a/1": disk.InUse, "a/2": disk.InUse, "a/3": disk.InUse, "a/4": ""},
		},
		"it is a part of a volume, whose own slot does not answer": {
			facts: []disk.Fact{at("a/1 dev:8:1 part:wwn:0:uuid:1:2"), at("a/2 fs:8:1:/x fs:u:/x"), at("a/3 fs:8:1:/xy fs:u:/xy"), at("a/4 dev:7:1 weakpart:boot:9:1")},
			known: []disk.Known{volumeOf("b/1 . wwn:0"), volumeOf("b/2 . fs:u:/x/y"), volumeOf("b/3 . fs:v:/"), volumeOf("b/4 . weak:boot:9")},
			want:  map[string]disk.Reason{"a/1": disk.InUse, "a/2": disk.InUse, "a/3": "", "a/4": disk.InUse},
		},
		"a part of another disk of the same boot is no part of a volume's": {
			facts: []disk.Fact{at("a/1 dev:7:1 weakpart:boot:8:1"), at("a/2 dev:7:2 weakpart:boot:91:1")},
			known: []disk.Known{volumeOf("b/1 . weak:boot:9")},
			want:  map[string]disk.Reason{"a/1": "", "a/2": ""},
		},
		"two volumes whose disks were exchanged: identities differ": {
			facts: []disk.Fact{at("a/1 dev:8:0 wwn:2"), at("a/2 dev:8:16 wwn:1")},
			known: []disk.Known{volumeOf("a/1 . wwn:1"), volumeOf("a/2 . wwn:2")},
			want:  map[string]disk.Reason{"a/1": "", "a/2": ""},
		},
		"an entry that did not answer has neither place nor identity, and matches none": {
			facts: []disk.Fact{at("a/1"), at("a/2")},
			want:  map[string]disk.Reason{"a/1": "", "a/2": ""},
		},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				rand.Shuffle(len(s.facts), func(i, j int) { s.facts[i], s.facts[j] = s.facts[j], s.facts[i] })
				before := slices.Clone(s.facts)
				got := make(map[string]disk.Reason)
				for key, f := range resolveConflicts(s.facts, s.known) {
					got[key.String()] = reason(f)
				}
				if diff := cmp.Diff(s.want, got); diff != "" {
					t.Fatalf("wanted -, got +:\n%s", diff)
				}
				if diff := cmp.Diff(before, s.facts); diff != "" {
					t.Fatalf("the facts given were changed:\n%s", diff)
				}
			}
		})
	}
}

func TestConflictNamesTheOtherSlot(t *testing.T) {
	whole := at("a/whole dev:8:0 wwn:0")
	part := at("b/part dev:8:1 part:0")
	part.Overlaps = []string{"dev:8:0"}
	got := resolveConflicts([]disk.Fact{part, whole}, nil)[part.Key].Problem
	if got == nil || got.Reason != disk.InUse || !strings.Contains(got.Message, "/a/whole") {
		t.Errorf("the partition's problem: %v", got)
	}
}

func FuzzResolveConflicts(f *testing.F) {
	f.Add("a/1 dev:8:0 weak|a/2 fs:8:1:/ fs:u:/|b/1 fs:8:1:/x fs:u:/x bad|b/2 dev:8:0 wwn:0", "a/1 . weak|b/1 . weak:|b/9 . weakpart")
	f.Fuzz(func(t *testing.T, facts, known string) {
		var found []disk.Fact
		seen := make(map[disk.Key]bool)
		for text := range strings.SplitSeq(facts, "|") {
			if f := at(text); !seen[f.Key] {
				seen[f.Key] = true
				found = append(found, f)
			}
		}
		var slots []disk.Known
		for text := range strings.SplitSeq(known, "|") {
			slots = append(slots, volumeOf(text))
		}
		resolved := resolveConflicts(found, slots)
		if len(resolved) != len(found) {
			t.Fatalf("%d facts of %d", len(resolved), len(found))
		}
		for key, a := range resolved {
			for other, b := range resolved {
				if key == other || a.Problem != nil || b.Problem != nil || a.Place == "" || b.Place == "" {
					continue
				}
				if a.Place == b.Place || overlap(a, b) || a.Identity != "" && a.Identity == b.Identity {
					t.Fatalf("%+v and %+v", a, b)
				}
			}
		}
	})
}
