// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// Merge patches.
const (
	released   = `{"metadata":{"finalizers":["kubernetes.io/pv-protection"]}}`
	unfinished = `{"metadata":{"finalizers":null}}`
	claimed    = `{"spec":{"claimRef":{"namespace":"default","name":"data"}}}`
	phase      = `{"status":{"phase":"Released"}}`
)

func annotate(key, value string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, value)
}

// taken changes a volume's metadata to that of another node.
func taken(node string) string {
	return fmt.Sprintf(`{"metadata":{"labels":{%q:%q},"annotations":{%q:%q,%q:%q}}}`, wellknown.NodeLabel, localpv.NodeHash(node),
		wellknown.NodeNameAnnotation, node, localpv.ProvisionedByAnnotation, localpv.ProvisionedBy(node))
}

// TestUpdate: a provisioner changes the finalizer and the disk annotations of its own volumes;
// of others nothing.
func TestUpdate(t *testing.T) {
	t.Parallel()
	const (
		annotations = "of a volume's annotations provisioners change"
		spec        = "do not change the spec"
		labels      = "do not change labels"
		own         = "its own volumes only"
	)
	tests := map[string]struct {
		by     *user // nil: alpha's provisioner
		before string
		patch  string
		sub    []string
		want   refusal
	}{
		"removes its finalizer": {patch: released},
		"records the disk that an administrator has called the same": {
			before: annotate(wellknown.SameDiskAnnotation, `"fs:2:/"`),
			patch: fmt.Sprintf(`{"metadata":{"annotations":{%q:"fs:2:/",%q:"2147483648",%q:null}}}`,
				wellknown.DiskIdentityAnnotation, wellknown.DiskBytesAnnotation, wellknown.SameDiskAnnotation),
		},
		"takes up a volume that was adopted": {
			before: fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null,%q:null}}}`, wellknown.DiskIdentityAnnotation, wellknown.DiskBytesAnnotation, wellknown.GenerationAnnotation),
			patch: fmt.Sprintf(`{"metadata":{"annotations":{%q:"fs:2:/",%q:"2147483648",%q:"1"}}}`,
				wellknown.DiskIdentityAnnotation, wellknown.DiskBytesAnnotation, wellknown.GenerationAnnotation),
		},
		"gives a volume its finalizer back": {
			before: released,
			patch:  `{"metadata":{"finalizers":["kubernetes.io/pv-protection","stowage.dev/local-volume"]}}`,
		},
		"marks its disk as missing":            {patch: annotate(wellknown.DiskAnnotation, `"Missing"`)},
		"marks its disk as replaced":           {before: annotate(wellknown.DiskAnnotation, `"Missing"`), patch: annotate(wellknown.DiskAnnotation, `"Replaced"`)},
		"marks its disk as failing":            {patch: annotate(wellknown.DiskAnnotation, `"Failing"`)},
		"removes the mark of a missing disk":   {before: annotate(wellknown.DiskAnnotation, `"Missing"`), patch: annotate(wellknown.DiskAnnotation, `null`)},
		"marks its disk with an unknown state": {patch: annotate(wellknown.DiskAnnotation, `"Fine"`), want: volumes(annotations)},
		"moves a device to another slot": {
			before: annotate(wellknown.DiskPathAnnotation, `"/mnt/disks/a"`), patch: annotate(wellknown.DiskPathAnnotation, `"/dev/stowage/devices/disks/a"`),
		},
		"moves a device to no path": {
			before: annotate(wellknown.DiskPathAnnotation, `"/mnt/disks/a"`), patch: annotate(wellknown.DiskPathAnnotation, `"a"`), want: volumes(annotations),
		},
		"forgets the slot of a device": {
			before: annotate(wellknown.DiskPathAnnotation, `"/mnt/disks/a"`), patch: annotate(wellknown.DiskPathAnnotation, `null`), want: volumes(annotations),
		},
		"gives a file system the slot of a device": {patch: annotate(wellknown.DiskPathAnnotation, `"/mnt/disks/a"`), want: volumes(annotations)},
		"accepts a disk as the same itself": {
			patch: annotate(wellknown.SameDiskAnnotation, `"fs:2:/"`), want: volumes(annotations),
		},
		"changes an administrator's acknowledgement": {
			before: annotate(wellknown.SameDiskAnnotation, `"fs:2:/"`),
			patch:  annotate(wellknown.SameDiskAnnotation, `"fs:3:/"`), want: volumes(annotations),
		},
		"forgets whom a volume was adopted from": {
			before: annotate(wellknown.AdoptedFromAnnotation, `"local-volume-provisioner-alpha"`),
			patch:  annotate(wellknown.AdoptedFromAnnotation, `null`), want: volumes(annotations),
		},
		"changes the generation": {patch: annotate(wellknown.GenerationAnnotation, `"7"`), want: volumes(annotations)},
		"forgets the generation": {patch: annotate(wellknown.GenerationAnnotation, `null`), want: volumes(annotations)},
		"changes the class by the old annotation": {
			patch: annotate("volume.beta.kubernetes.io/storage-class", `"database"`), want: volumes(annotations),
		},
		"marks it as bound by the controller": {
			patch: annotate("pv.kubernetes.io/bound-by-controller", `"yes"`), want: volumes(annotations),
		},
		"gives it to another node":   {patch: taken(beta), want: volumes(own)},
		"takes it from all nodes":    {patch: annotate(wellknown.NodeNameAnnotation, `null`), want: volumes(own)},
		"hides it from its watch":    {patch: fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, wellknown.NodeLabel, localpv.NodeHash(beta)), want: volumes(labels)},
		"labels it":                  {patch: `{"metadata":{"labels":{"tier":"gold"}}}`, want: volumes(labels)},
		"gives it an owner":          {patch: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"beta","uid":"1"}]}}`, want: volumes(labels)},
		"reserves it for a claim":    {patch: claimed, want: volumes(spec)},
		"changes the reclaim policy": {patch: `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`, want: volumes(spec)},
		"changes the capacity":       {patch: `{"spec":{"capacity":{"storage":"1Ti"}}}`, want: volumes(spec)},
		"changes the mount options":  {patch: `{"spec":{"mountOptions":["dev"]}}`, want: volumes(spec)},
		"removes all finalizers":     {patch: unfinished, want: volumes("finalizers")},
		"writes the status":          {by: shared.privileged[alpha], patch: phase, sub: []string{"status"}, want: volumes("do not write the status")},

		"another provisioner removes the finalizer":     {by: shared.provisioners[beta], patch: released, want: volumes(own)},
		"another provisioner makes it its own":          {by: shared.provisioners[beta], patch: taken(beta), want: volumes(own)},
		"another provisioner changes the disk identity": {by: shared.provisioners[beta], patch: annotate(wellknown.DiskIdentityAnnotation, `"fs:2:/"`), want: volumes(own)},
		"another provisioner marks its disk as missing": {by: shared.provisioners[beta], patch: annotate(wellknown.DiskAnnotation, `"Missing"`), want: volumes(own)},
		"another provisioner removes the mark of its disk": {
			by: shared.provisioners[beta], before: annotate(wellknown.DiskAnnotation, `"Missing"`), patch: annotate(wellknown.DiskAnnotation, `null`), want: volumes(own),
		},
		"another provisioner claims it":         {by: shared.provisioners[beta], patch: claimed, want: volumes(own)},
		"another provisioner writes the status": {by: shared.privileged[beta], patch: phase, sub: []string{"status"}, want: volumes("do not write the status")},

		"a token of no pod removes the finalizer": {by: shared.unbound, patch: released, want: volumes(noNode)},
		"an administrator does as he likes":       {by: shared.admin, patch: taken(beta)},
		"another account does as it likes":        {by: shared.others, patch: claimed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pv := published(t, alpha)
			if test.before != "" {
				if err := shared.admin.patchVolume(t.Context(), pv.Name, test.before); err != nil {
					t.Fatal(err)
				}
			}
			by := shared.provisioners[alpha]
			if test.by != nil {
				by = test.by
			}
			test.want.want(t, by.patchVolume(t.Context(), pv.Name, test.patch, test.sub...))
		})
	}
}
