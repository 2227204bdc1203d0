// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// referencePrefix is the prefix of the reference's name as a provisioner. The node's name
// follows and, unless the key useNodeNameOnly is on, a hyphen and the UID of the Node object.
const referencePrefix = "local-volume-provisioner-"

// uid matches a UID.
var uid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// isReference reports whether a provisioner is the reference, on any node.
func isReference(provisioner string) bool { return strings.HasPrefix(provisioner, referencePrefix) }

// isReferenceOf reports whether a provisioner is the reference on a node. The UID may be that
// of a deleted Node object of the same name.
func isReferenceOf(provisioner, node string) bool {
	rest, found := strings.CutPrefix(provisioner, referencePrefix+node)
	return found && (rest == "" || rest[0] == '-' && uid.MatchString(rest[1:]))
}

// referenceName is the reference's name as a provisioner on a node.
func referenceName(node string, nodeUID types.UID, nameOnly bool) string {
	if nameOnly {
		return referencePrefix + node
	}
	return referencePrefix + node + "-" + string(nodeUID)
}

// hostOf returns the hostname that a volume's node affinity requires, if it requires nothing
// else, as the reference writes it.
func hostOf(pv *corev1.PersistentVolume) (string, bool) {
	affinity := pv.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil || len(affinity.Required.NodeSelectorTerms) != 1 {
		return "", false
	}
	term := affinity.Required.NodeSelectorTerms[0]
	if len(term.MatchFields) != 0 || len(term.MatchExpressions) != 1 {
		return "", false
	}
	e := term.MatchExpressions[0]
	if e.Key != corev1.LabelHostname || e.Operator != corev1.NodeSelectorOpIn || len(e.Values) != 1 || e.Values[0] == "" {
		return "", false
	}
	return e.Values[0], true
}
