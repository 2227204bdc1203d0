// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// everySlot visits the slots with every combination of a few values of each field.
func everySlot(visit func(*decide.Slot)) {
	none := (*disk.Record)(nil)
	identities := []disk.Identity{"", "wwn:1", "wwn:2", "weak:b1:1:1", "weak:b2:1:1"}
	for _, fact := range facts() {
		for _, volume := range volumes(identities) {
			for _, record := range append([]*disk.Record{none}, records()...) {
				bits := 7
				if volume == nil {
					bits = 8 // with NodesAsked
				}
				if volume == nil && record != nil {
					bits = 10 // with Stayed and ForeignPV
				}
				for bits := range 1 << bits {
					s := assemble(fact, volume, record, bits)
					if consistent(s) {
						contents(s, visit)
					}
				}
			}
		}
	}
}

// contents visits a slot, and variants of it with all that may be known about the data on
// its disk.
func contents(s *decide.Slot, visit func(*decide.Slot)) {
	visit(s)
	if s.Volume != nil && s.Record != nil && s.Record.State == disk.Published && !s.Volume.Claimed {
		tracked := *s.Record
		tracked.Attachment = "b1/mount:1"
		for _, content := range []disk.Content{disk.ContentUnknown, disk.ContentSome, disk.ContentNone} {
			for _, stayed := range []bool{false, true} {
				v := *s
				v.Content, v.Stayed, v.Record = content, stayed, &tracked
				if s.VolumeRecord == s.Record {
					v.VolumeRecord = v.Record
				}
				visit(&v)
			}
		}
	}
	if s.Volume != nil || s.Fact == nil {
		return
	}
	predecessors := [][]disk.Record{nil}
	choices := []decide.Existing{s.Existing}
	if s.Record == nil {
		for _, state := range []disk.State{disk.Published, disk.Cleaning, disk.Retained} {
			for _, policy := range []disk.Policy{disk.Delete, disk.Retain} {
				p := disk.Record{Identity: "weak:b1:1", Key: key, State: state, Policy: policy, Volume: "local-pv-0", Generation: 7, Cluster: "here"}
				later := disk.Record{Identity: "weak:b1:2", Key: key, State: disk.Cleaning, Policy: disk.Delete, Volume: "local-pv-2", Generation: 8, Cluster: "here"}
				predecessors = append(predecessors, []disk.Record{p}, []disk.Record{later, p})
			}
		}
		choices = []decide.Existing{decide.ExistingRefuse, decide.ExistingPublish, decide.ExistingClean, decide.ExistingAssumeBlank}
	}
	for _, before := range predecessors {
		for _, existing := range choices {
			for _, content := range []disk.Content{disk.ContentUnknown, disk.ContentSampled, disk.ContentSome, disk.ContentNone} {
				for bits := range 4 {
					v := *s
					v.Predecessors, v.Existing, v.Content = before, existing, content
					v.Acknowledged, v.Unaccounted = bits&1 != 0, bits&2 != 0 || before != nil
					visit(&v)
				}
			}
		}
	}
}

// orphans visits slots without a volume, with records of this cluster or another, every last
// phase of the volume, and every combination of what allows to clean or publish the disk.
func orphans(visit func(*decide.Slot)) {
	for _, fact := range facts() {
		for _, record := range records() {
			for _, cluster := range []string{"", "here", "there"} {
				for _, phase := range []disk.Phase{"", disk.PhaseAvailable, disk.PhaseBound, disk.PhaseReleased, disk.PhaseOfFailed} {
					for bits := range 1 << 9 {
						s := assemble(fact, nil, record, bits&0x7f|bits&0x80|7)
						if !consistent(s) {
							continue
						}
						on := func(bit int) bool { return bits>>bit&1 == 1 }
						s.Cluster, s.Record.Cluster, s.Record.Phase = "here", cluster, phase
						s.Acknowledged, s.GraceOver, s.CleanAllowed, s.Users = on(0), on(1), on(2), nil
						if on(6) {
							s.Existing = decide.ExistingPublish
						}
						if on(8) {
							s.Record.Missed = time.Unix(1, 0)
						}
						visit(s)
					}
				}
			}
		}
	}
}

// mayHoldData reports whether publishing a disk without a record would give its data to the
// next claim, or have it overwritten, although that was not requested.
func mayHoldData(s *decide.Slot) bool {
	switch {
	case s.Content == disk.ContentNone:
		return false // every byte was read
	case s.Acknowledged || s.Predecessors != nil:
		return !s.Acknowledged
	case s.Existing == decide.ExistingAssumeBlank:
		return s.Content != disk.ContentSampled || s.Unaccounted
	default:
		return s.Existing != decide.ExistingPublish
	}
}

// kept returns why the data of a slot without a volume must be kept; empty if not.
func kept(s *decide.Slot) string {
	r := s.Record
	switch {
	case s.Acknowledged && r.State != disk.Cleaning:
		return "an administrator acknowledged the data"
	case r.Cluster != s.Cluster:
		return "another cluster may need it"
	case r.State == disk.Cleaning:
		return ""
	case r.State != disk.Published:
		return "it is retained"
	case r.Phase != disk.PhaseReleased:
		return "its volume was not released"
	case r.Missed.IsZero() || !s.GraceOver:
		return "the grace period is not over"
	case !s.CleanAllowed:
		return "the controller has not allowed it"
	}
	return ""
}

// TestNoDecisionOnOrphansIsDangerous decides about every slot without a volume.
func TestNoDecisionOnOrphansIsDangerous(t *testing.T) {
	counts := map[decide.Action]int{}
	orphans(func(s *decide.Slot) {
		d := decision(s)
		counts[d.Do]++
		wrong := dangerous(s, d)
		switch d.Do {
		case decide.Clean:
			if s.Record.State.Dirty() {
				wrong += kept(s)
			}
		case decide.MarkClean:
			if s.Record.Cluster != s.Cluster && !s.Acknowledged {
				wrong += "another cluster may need the data"
			}
		}
		if wrong != "" {
			t.Fatalf("%s: %s\n%s", d.Do, wrong, show(s))
		}
	})
	t.Logf("decisions: %v", counts)
	if counts[decide.Clean] == 0 || counts[decide.MarkClean] == 0 || counts[decide.MarkVanished] == 0 {
		t.Error("no slot is visited in which a disk is cleaned, published again or marked as vanished")
	}
}

func assemble(fact *disk.Fact, volume *disk.Volume, record *disk.Record, bits int) *decide.Slot {
	on := func(bit int) bool { return bits>>bit&1 == 1 }
	s := &decide.Slot{Key: key, Cluster: "here", Configured: on(0), Existing: decide.ExistingRefuse, DirectoryRead: on(1), Answers: decide.Answers{UsersKnown: on(2)}}
	if fact != nil {
		f := *fact
		s.Fact = &f
	}
	if volume != nil {
		v := *volume
		s.Volume = &v
	}
	if record != nil {
		r := *record
		if fact != nil {
			r.Identity = fact.Identity
		}
		s.Record = &r
	}
	if on(3) {
		s.MissedScans, s.Persistent = decide.AbsentAfter, true
	}
	if on(4) {
		s.Content = disk.ContentNone
	}
	if on(5) {
		s.Existing = decide.ExistingClean
	}
	if on(6) && s.UsersKnown {
		s.Users = []disk.User{{What: "mount", Where: "/x"}}
	}
	s.NodesAsked = on(7)
	s.Stayed = on(8)
	if on(9) && s.NodesAsked {
		s.ForeignPV = "volume local-pv-9 of node n9"
	}
	if v := s.Volume; v != nil && s.Record != nil && s.Fact != nil && v.Identity == s.Fact.Identity {
		s.VolumeRecord = s.Record
	}
	return s
}

// consistent reports whether gathering can produce the slot.
func consistent(s *decide.Slot) bool {
	if s.Record != nil && (s.Fact == nil || s.Fact.Identity == "") {
		return false
	}
	return s.Fact == nil || s.Fact.Problem != nil || s.Fact.Identity != ""
}

func facts() []*disk.Fact {
	return []*disk.Fact{
		nil,
		{Key: key, Problem: disk.Problemf(disk.MountMissing, "")},
		{Key: key, Problem: disk.Problemf(disk.TimedOut, "")},
		{Key: key, Kind: disk.Device, Problem: disk.Problemf(disk.InUse, ""), Identity: "wwn:1"},
		{Key: key, Kind: disk.Mount, Problem: disk.Problemf(disk.FilesystemError, ""), Identity: "wwn:1"},
		{Key: key, Kind: disk.Device, Identity: "wwn:1", Bytes: 10},
		{Key: key, Kind: disk.Device, Identity: "weak:b2:1:1", Bytes: 10},
	}
}

func volumes(identities []disk.Identity) []*disk.Volume {
	all := []*disk.Volume{nil}
	for _, identity := range identities {
		for _, phase := range []disk.Phase{disk.PhaseAvailable, disk.PhaseBound, disk.PhaseReleased, disk.PhaseOfFailed} {
			for _, policy := range []disk.Policy{disk.Delete, disk.Retain} {
				for bits := range 8 {
					all = append(all, &disk.Volume{
						Name: "local-pv-1", Key: key, Identity: identity, Phase: phase, Policy: policy, Generation: 7,
						Deleting: bits&1 != 0, Finalized: bits&2 != 0, Claimed: bits&4 != 0 || phase == disk.PhaseBound || phase == disk.PhaseReleased,
						DiskBytes: 10,
					})
				}
				if phase == disk.PhaseBound {
					marked := *all[len(all)-2] // finalized, and not being deleted
					marked.Mark = disk.MarkReplaced
					all = append(all, &marked)
				}
			}
		}
	}
	return all
}

func records() []*disk.Record {
	var all []*disk.Record
	for _, state := range []disk.State{disk.Clean, disk.Published, disk.Cleaning, disk.Retained} {
		for _, volume := range []string{"", "local-pv-1", "local-pv-0"} {
			for _, policy := range []disk.Policy{disk.Delete, disk.Retain} {
				cluster := "here"
				if policy == disk.Retain && volume == "local-pv-0" {
					cluster = "there"
				}
				all = append(all, &disk.Record{Key: key, State: state, Volume: volume, Policy: policy, Generation: 7, Cluster: cluster})
			}
		}
	}
	return all
}

func decision(s *decide.Slot) decide.Decision {
	if decide.ForReclaim(s) {
		return decide.Reclaim(s)
	}
	return decide.Publish(s, 100)
}

// TestNoDecisionIsDangerous decides about every slot.
func TestNoDecisionIsDangerous(t *testing.T) {
	slots := 0
	everySlot(func(s *decide.Slot) {
		slots++
		d := decision(s)
		if wrong := dangerous(s, d); wrong != "" {
			t.Fatalf("%s: %s\n%s", d.Do, wrong, show(s))
		}
	})
	t.Logf("%d slots", slots)
}

// dangerous returns why a decision is wrong; empty if it is not.
func dangerous(s *decide.Slot, d decide.Decision) string {
	sound := s.DirectoryRead && s.Fact != nil && s.Fact.Problem == nil
	free := s.Volume != nil && !s.Volume.Claimed && s.Volume.Phase != disk.PhaseBound
	switch d.Do {
	case decide.Clean:
		switch {
		case !sound:
			return "there is no disk without problem"
		case s.Record != nil && s.Record.Cluster != s.Cluster:
			return "another cluster may need the data"
		case !s.UsersKnown || len(s.Users) > 0:
			return "the disk may be in use"
		case s.Volume != nil && (!s.Volume.Deleting || !s.Volume.Finalized):
			return "the volume can still be bound"
		case s.Volume != nil && s.Volume.Binding():
			return "a claim is being bound to the volume"
		case s.Volume != nil && s.Match() != disk.Same:
			return "the disk is not the volume's"
		case s.Volume != nil && s.Volume.Policy != disk.Delete, s.Volume == nil && s.Record != nil && s.Record.State.Dirty() && s.Record.Policy != disk.Delete:
			return "the data must be kept"
		case s.Volume == nil && s.Record == nil && s.Existing != decide.ExistingClean:
			return "the data is of unknown origin"
		case s.Volume == nil && s.Record != nil && s.Record.State == disk.Clean && !s.Stayed && s.Existing != decide.ExistingClean:
			return "the disk was away, and the data is of unknown origin"
		case s.WasAway() && s.Content != disk.ContentNone:
			return "the disk was away, and the data is not the volume's"
		case s.Volume == nil && s.Record == nil && slices.ContainsFunc(s.Predecessors, func(p disk.Record) bool { return p.State == disk.Retained || p.Policy != disk.Delete }):
			return "the data may be that of a retained disk"
		case s.Volume == nil && s.Record == nil && !s.NodesAsked:
			return "the data may be that of a lost volume, and must be kept"
		case s.Volume == nil && s.Record != nil && s.Record.State.Dirty() && !s.NodesAsked, s.ForeignPV != "":
			return "the data may be that of another node's volume"
		}
	case decide.Create:
		switch {
		case s.Record != nil && s.Record.Cluster != s.Cluster:
			return "another cluster may need the data"
		case !sound || s.Volume != nil:
			return "there is no disk without problem, or a volume already"
		case s.Record != nil && s.Record.State != disk.Clean:
			return "the disk is dirty"
		case s.Fact.Kind == disk.Device && (!s.UsersKnown || len(s.Users) > 0):
			return "the device may be in use"
		case s.Record == nil && mayHoldData(s):
			return "the disk is not known to be empty"
		case s.Record == nil && !s.NodesAsked:
			return "its volume may have been lost on another node"
		case s.Record != nil && !s.Stayed && !s.NodesAsked, s.ForeignPV != "":
			return "another node may have had it, with data"
		case s.Record != nil && !s.Stayed && mayHoldData(s):
			return "it was away, and is not known to be empty"
		}
	case decide.DeleteVolume:
		clean := sound && s.Match() == disk.Same && s.UsersKnown && len(s.Users) == 0
		if !free && (s.Volume == nil || s.Volume.Phase != disk.PhaseReleased || s.Volume.Policy != disk.Delete || !clean) {
			return "the volume may be needed"
		}
		if !s.Volume.Finalized {
			return "the volume has no finalizer"
		}
	case decide.RemoveFinalizer:
		present := sound && s.Match() == disk.Same
		if s.Volume.Binding() && s.VolumeRecord != nil && s.VolumeRecord.State.Dirty() {
			return "" // cleaned after no claim can be bound
		}
		if present && (s.VolumeRecord == nil || s.VolumeRecord.State == disk.Published || s.VolumeRecord.State == disk.Cleaning) {
			return "the disk is present, and neither clean nor retained"
		}
	case decide.None:
		if !decide.ForReclaim(s) && sound && s.Volume != nil && s.Volume.Finalized && s.WasAway() && s.Content == disk.ContentSome && s.OfOtherCluster() == nil {
			return "the volume stays unclaimed, and its disk has data"
		}
		if wanted, known := marked(s); known && s.Volume.Mark != wanted {
			return fmt.Sprintf("the volume has mark %q, want %q", s.Volume.Mark, wanted)
		}
	case decide.MarkClean:
		if s.Content != disk.ContentNone && !s.Acknowledged {
			return "the disk is not known to be empty"
		}
	}
	return ""
}

// marked returns the mark that a volume in use must have, if that is known.
func marked(s *decide.Slot) (disk.Mark, bool) {
	switch {
	case s.Volume == nil || decide.ForReclaim(s) || !s.DirectoryRead:
		return "", false
	case s.Absent():
		return disk.MarkMissing, true
	case s.Vacant():
		return "", false
	case s.Match() == disk.Different:
		return disk.MarkReplaced, true
	case s.Failing() && s.Volume.Mark == disk.MarkReplaced && s.Match() == disk.Unproven:
		return disk.MarkReplaced, true
	case s.Failing():
		return disk.MarkFailing, true
	case s.Fact.Problem != nil || s.Match() == disk.Unproven:
		return "", false
	default:
		return disk.Unmarked, true
	}
}

// TestDecisionsEnd performs the decided actions, from every slot, until none is left.
func TestDecisionsEnd(t *testing.T) {
	const enough = 12
	each := func(visit func(*decide.Slot)) { everySlot(visit); orphans(visit) }
	each(func(s *decide.Slot) {
		var done []decide.Action
		begin := *s
		for {
			d := decision(s)
			if d.Do == decide.None {
				return
			}
			if done = append(done, d.Do); len(done) > enough {
				t.Fatalf("there is no end of decisions: %v\n%s", done, show(&begin))
			}
			perform(s, d)
		}
	})
}

// perform changes the slot as the provisioner does if the action succeeds.
func perform(s *decide.Slot, d decide.Decision) {
	switch d.Do {
	case decide.AskNodes:
		s.NodesAsked = true
	case decide.Inspect:
		if s.Content = disk.ContentSampled; s.Volume != nil {
			s.Content = disk.ContentSome
		}
	case decide.ProveBlank:
		s.Content = disk.ContentSome
	case decide.FindUsers:
		s.UsersKnown = true
	case decide.Create:
		s.Volume = &disk.Volume{
			Name: fmt.Sprintf("local-pv-%d", d.Generation), Key: key, Identity: s.Fact.Identity, DiskBytes: s.Fact.Bytes,
			Generation: d.Generation, Phase: disk.PhaseAvailable, Policy: disk.Delete, Finalized: true,
		}
		writeRecord(s, s.Fact.Identity, disk.Published)
	case decide.CleanLater:
		s.VolumeRecord.State, s.VolumeRecord.Phase = disk.Cleaning, disk.PhaseReleased
	case decide.MarkVanished:
		s.Record.Missed = time.Unix(1, 0)
	case decide.WriteRecord:
		if r := s.VolumeRecord; r != nil && r.Cluster != s.Cluster && !s.Acknowledged {
			panic("the record of another cluster is overwritten: " + show(s))
		}
		if s.Fact != nil && s.Fact.Problem == nil && (s.Volume.Identity == "" || s.Match() == disk.Same) {
			s.Volume.Identity = s.Fact.Identity
		}
		recorded := s.VolumeRecord
		writeRecord(s, s.Volume.Identity, disk.Published)
		if s.VolumeRecord.Unclaimed() && recorded != nil && recorded.Unclaimed() && recorded.Volume == s.Volume.Name {
			s.VolumeRecord.Attachment, s.Stayed = recorded.Attachment, s.Stayed || s.Content == disk.ContentNone
		}
	case decide.AddFinalizer:
		s.Volume.Finalized = true
	case decide.MarkDisk:
		s.Volume.Mark = d.Mark
	case decide.DeleteVolume:
		s.Volume.Deleting = true
	case decide.Clean:
		if s.Record == nil {
			s.Record = &disk.Record{Identity: s.Fact.Identity, Policy: disk.Delete, Cluster: s.Cluster}
			s.VolumeRecord = s.Record
		}
		s.Record.State, s.Record.Generation, s.Stayed = disk.Clean, d.Generation, true
		if s.Volume == nil {
			s.Record.Volume = ""
		}
	case decide.MarkRetained:
		if s.Volume == nil {
			s.Record.State = disk.Retained
			return
		}
		writeRecord(s, s.Volume.Identity, disk.Retained)
	case decide.MarkClean:
		s.Record.Cluster = s.Cluster
		s.Record.State, s.Record.Generation, s.Stayed = disk.Clean, d.Generation, true
	case decide.RemoveFinalizer:
		s.Volume, s.VolumeRecord = nil, nil
	}
}

// writeRecord records the volume with the disk of the identity.
func writeRecord(s *decide.Slot, identity disk.Identity, state disk.State) {
	s.VolumeRecord = &disk.Record{
		Identity: identity, Key: key, State: state, Volume: s.Volume.Name, Generation: s.Volume.Generation, Policy: s.Volume.Policy,
		Cluster: s.Cluster, Phase: s.Volume.Seen(),
	}
	if s.Fact != nil && s.Fact.Problem == nil && (s.Fact.Identity == identity || identity == "") {
		s.VolumeRecord.Identity = s.Fact.Identity
		s.Record = s.VolumeRecord
	}
}

func show(s *decide.Slot) string {
	text := fmt.Sprintf("slot %+v", *s)
	if s.Fact != nil {
		text += fmt.Sprintf("\nfact %+v", *s.Fact)
	}
	if s.Volume != nil {
		text += fmt.Sprintf("\nvolume %+v", *s.Volume)
	}
	if s.Record != nil {
		text += fmt.Sprintf("\nrecord %+v", *s.Record)
	}
	return text
}
