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

// taken makes a volume that of another node, as far as metadata goes.
func taken(node string) string {
	return fmt.Sprintf(`{"metadata":{"labels":{%q:%q},"annotations":{%q:%q,%q:%q}}}`, wellknown.NodeLabel, localpv.NodeHash(node),
		wellknown.NodeNameAnnotation, node, localpv.ProvisionedByAnnotation, localpv.ProvisionedBy(node))
}

// TestUpdate: of its own volumes an agent changes the finalizer and what it says
// of the disk; of others nothing.
func TestUpdate(t *testing.T) {
	t.Parallel()
	const (
		annotations = "of a volume's annotations provisioners change"
		spec        = "do not change the spec"
		labels      = "do not change labels"
		own         = "its own volumes only"
	)
	tests := map[string]struct {
		by     *user // nil: alpha's agent
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
		"says that its disk is missing":         {patch: annotate(wellknown.DiskAnnotation, `"Missing"`)},
		"says that its disk is another one":     {before: annotate(wellknown.DiskAnnotation, `"Missing"`), patch: annotate(wellknown.DiskAnnotation, `"Replaced"`)},
		"says that its disk is failing":         {patch: annotate(wellknown.DiskAnnotation, `"Failing"`)},
		"says no more that its disk is missing": {before: annotate(wellknown.DiskAnnotation, `"Missing"`), patch: annotate(wellknown.DiskAnnotation, `null`)},
		"says of its disk what nobody knows":    {patch: annotate(wellknown.DiskAnnotation, `"Fine"`), want: volumes(annotations)},
		"says itself that a disk is the same": {
			patch: annotate(wellknown.SameDiskAnnotation, `"fs:2:/"`), want: volumes(annotations),
		},
		"changes an administrator's word": {
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
		"says that the controller bound it": {
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
		"writes the status":          {by: bed.mighty[alpha], patch: phase, sub: []string{"status"}, want: volumes("do not write the status")},

		"another agent removes the finalizer":    {by: bed.agents[beta], patch: released, want: volumes(own)},
		"another agent makes it its own":         {by: bed.agents[beta], patch: taken(beta), want: volumes(own)},
		"another agent says it is another disk":  {by: bed.agents[beta], patch: annotate(wellknown.DiskIdentityAnnotation, `"fs:2:/"`), want: volumes(own)},
		"another agent says its disk is missing": {by: bed.agents[beta], patch: annotate(wellknown.DiskAnnotation, `"Missing"`), want: volumes(own)},
		"another agent says its disk is back": {
			by: bed.agents[beta], before: annotate(wellknown.DiskAnnotation, `"Missing"`), patch: annotate(wellknown.DiskAnnotation, `null`), want: volumes(own),
		},
		"another agent claims it":         {by: bed.agents[beta], patch: claimed, want: volumes(own)},
		"another agent writes the status": {by: bed.mighty[beta], patch: phase, sub: []string{"status"}, want: volumes("do not write the status")},

		"a token of no pod removes the finalizer": {by: bed.unbound, patch: released, want: volumes(noNode)},
		"an administrator does as he likes":       {by: bed.admin, patch: taken(beta)},
		"another account does as it likes":        {by: bed.others, patch: claimed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pv := published(t, alpha)
			if test.before != "" {
				if err := bed.admin.patchVolume(t.Context(), pv.Name, test.before); err != nil {
					t.Fatal(err)
				}
			}
			by := bed.agents[alpha]
			if test.by != nil {
				by = test.by
			}
			test.want.want(t, by.patchVolume(t.Context(), pv.Name, test.patch, test.sub...))
		})
	}
}
