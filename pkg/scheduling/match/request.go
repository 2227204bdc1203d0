// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Request is the compiled form of a claim, for one scheduling cycle. It is immutable and
// safe for concurrent use.
type Request struct {
	// Claim is the object that the request was compiled from: read only.
	Claim *v1.PersistentVolumeClaim
	// Class is the storage class; the beta annotation wins over the spec.
	Class string
	// Bytes is the storage request, rounded up to whole bytes; 0 for none.
	Bytes int64
	// Block: spec.volumeMode is Block; nil means Filesystem.
	Block bool
	// AttributesClass is the VolumeAttributesClass, empty for none.
	AttributesClass string
	// AccessModes are the modes the volume must offer.
	AccessModes AccessModes
	// Selector must match the volume's labels; nil if the claim has none or an empty one,
	// which every volume matches.
	Selector labels.Selector

	labelRequirements []labelRequirement
	labelKeys         []string
}

// labelRequirement is a requirement of the selector that a label index can serve: the
// volume has the label, with one of the values or, with anyValue, any.
type labelRequirement struct {
	key      string
	values   []string
	anyValue bool
}

// NewRequest compiles a claim, which it keeps and does not change. The error names the
// claim's invalid field.
func NewRequest(claim *v1.PersistentVolumeClaim) (*Request, error) {
	r := &Request{
		Claim:           claim,
		Class:           ClaimClass(claim),
		Bytes:           storageBytes(claim.Spec.Resources.Requests),
		Block:           isBlock(claim.Spec.VolumeMode),
		AttributesClass: orEmpty(claim.Spec.VolumeAttributesClassName),
		AccessModes:     AccessModesOf(claim.Spec.AccessModes),
	}
	if claim.Spec.Selector == nil {
		return r, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("parse spec.selector of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	if !selector.Empty() {
		r.Selector = selector
		r.collectRequirements()
	}
	return r, nil
}

// collectRequirements collects the selector's requirements that a label index can serve.
func (r *Request) collectRequirements() {
	requirements, _ := r.Selector.Requirements()
	for _, requirement := range requirements {
		n := labelRequirement{key: requirement.Key()}
		switch requirement.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			n.values = requirement.Values().List()
		case selection.Exists:
			n.anyValue = true
		default:
			continue
		}
		r.labelRequirements = append(r.labelRequirements, n)
		if !slices.Contains(r.labelKeys, n.key) {
			r.labelKeys = append(r.labelKeys, n.key)
		}
	}
}

// LabelKeys returns the label keys that a Pool should be indexed by to serve the
// request's selector; read only, empty if an index cannot help.
func (r *Request) LabelKeys() []string { return r.labelKeys }

// FitsSpec reports whether the volume serves the claim if they are already assigned to
// each other: capacity, volume mode, VolumeAttributesClass and access modes fit, its disk
// is usable, and the volume is not being deleted. Phase, class and selector are ignored.
func (r *Request) FitsSpec(v *Volume) bool {
	return v.Bytes >= r.Bytes &&
		v.Block == r.Block &&
		v.AccessModes.Contains(r.AccessModes) &&
		v.AttributesClass == r.AttributesClass &&
		v.DiskProblem == Fits &&
		!v.deleting
}

// Matches reports whether the claim may take the volume if it is free: FitsSpec, and
// class and selector match.
func (r *Request) Matches(v *Volume) bool {
	return r.FitsSpec(v) && v.Class == r.Class && r.selects(v)
}

func (r *Request) selects(v *Volume) bool {
	return r.Selector == nil || r.Selector.Matches(v.labels())
}

// RefersTo reports whether a volume's claimRef names the claim: namespace and name, and
// the UID if the reference has one. A nil reference names no claim.
func RefersTo(ref *v1.ObjectReference, claim *v1.PersistentVolumeClaim) bool {
	return ref != nil &&
		ref.Name == claim.Name && ref.Namespace == claim.Namespace &&
		(ref.UID == "" || ref.UID == claim.UID)
}

// Less reports whether the request prefers a to b: the smaller volume, then the one with
// fewer access modes that were not requested, then the first by name. Both must match the
// request.
func Less(r *Request, a, b *Volume) bool { return compare(r, a, b) < 0 }

func compare(r *Request, a, b *Volume) int {
	if c := cmp.Compare(a.Bytes, b.Bytes); c != 0 {
		return c
	}
	if c := cmp.Compare(a.AccessModes.Surplus(r.AccessModes), b.AccessModes.Surplus(r.AccessModes)); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}
