// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// lostTo is why the claim that has the volume cannot use it, wherever its pod goes:
// the volume's disk is not there. Fits if nothing is known against the disk.
func (v *volume) lostTo(claim *v1.PersistentVolumeClaim) match.Reason {
	if v.Lost == match.Fits {
		return match.Reason{}
	}
	return match.Reason{Code: v.Lost, Claim: claim.Name, Volume: v.Name}
}

// mismatch is why none of the volumes that name the claim will do for it: a lost disk,
// if one of them has lost its. The caller holds the lock.
func (c *Cache) mismatch(p *pending) match.Reason {
	first := ""
	for _, v := range c.byClaim[p.key] {
		if !match.RefersTo(v.PV.Spec.ClaimRef, p.Claim) {
			continue
		}
		if v.Lost != match.Fits {
			return v.lostTo(p.Claim)
		}
		if first == "" {
			first = v.Name
		}
	}
	return match.Reason{Code: match.ReservedVolumeMismatch, Claim: p.Claim.Name, Volume: first}
}
