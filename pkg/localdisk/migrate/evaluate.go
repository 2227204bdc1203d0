// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// protection is the finalizer that the API server adds to every volume.
const protection = "kubernetes.io/pv-protection"

// view has the objects that volumes are evaluated against.
type view struct {
	classes     map[string]provisioner.Class
	directories map[string]string
	nodes       nodes
	// wanted are the selected nodes; none means all.
	wanted []string
	// running are the reference's pods, by node; jobs those that clean, by volume.
	running map[string]string
	jobs    map[types.UID]string
}

// evaluate decides about a volume; false if the migration does not concern it.
func (v *view) evaluate(pv *corev1.PersistentVolume) (Candidate, bool) {
	volume, problem := localpv.VolumeOf(pv, v.directories)
	c := Candidate{Volume: pv.Name, Node: v.nodeOf(pv), Class: volume.Key.Class, Path: volume.HostPath, Phase: pv.Status.Phase, Verdict: Leave, object: pv}
	origin, adopted := origin(pv)
	c.Reference = isReference(origin)
	switch {
	case len(v.wanted) > 0 && !slices.Contains(v.wanted, c.Node):
		return c, false
	case adopted && localpv.Owned(pv, c.Node):
		c.Verdict = Taken
		return c, true
	case c.Reference:
	case adopted, problem != nil, strings.HasPrefix(origin, localpv.ProvisionedBy("")), !localpv.Configured(&volume, v.directories):
		return c, false
	default:
		c.Why = fmt.Sprintf("the reference did not create it (%s is %q), and the provisioner would publish its disk a second time: remove the disk from %s, or delete the volume", localpv.ProvisionedByAnnotation, origin, path.Dir(c.Path))
		return c, true
	}
	if problem != nil {
		c.Why = "it has no local path"
	} else {
		c.Why = v.reject(pv, &volume, origin)
	}
	if c.Why == "" {
		c.Verdict, c.change = Take, adoption(pv, c.Node, origin)
	}
	return c, true
}

// origin returns the provisioner that a volume is from, and whether it was adopted from there.
func origin(pv *corev1.PersistentVolume) (provisioner string, adopted bool) {
	now := pv.Annotations[localpv.ProvisionedByAnnotation]
	if former := pv.Annotations[wellknown.AdoptedFromAnnotation]; former != "" && !isReference(now) {
		return former, true
	}
	return now, false
}

// nodeOf returns the node of a volume; empty if unknown.
func (v *view) nodeOf(pv *corev1.PersistentVolume) string {
	host, ok := hostOf(pv)
	if names := v.nodes.byHost[host]; ok && len(names) == 1 {
		return names[0]
	}
	return ""
}

// place returns the node and path of a volume, which no two volumes may share.
func (v *view) place(pv *corev1.PersistentVolume) (string, bool) {
	host, ok := hostOf(pv)
	if !ok || pv.Spec.Local == nil {
		return "", false
	}
	return host + ":" + path.Clean(localpv.PathOf(pv)), true
}

// reject returns why a volume of the reference cannot be adopted; empty if it can.
func (v *view) reject(pv *corev1.PersistentVolume, volume *disk.Volume, origin string) string {
	if why := v.rejectNode(pv, origin); why != "" {
		return why
	}
	if why := v.rejectClass(volume); why != "" {
		return why
	}
	if why := rejectMeta(pv); why != "" {
		return why
	}
	if job := v.jobs[pv.UID]; job != "" {
		return fmt.Sprintf("the reference's job %s still cleans it: wait for it to end, or delete it", job)
	}
	if pod := v.running[v.nodeOf(pv)]; pod != "" {
		return fmt.Sprintf("the reference still runs on the node (pod %s): remove it from the node first", pod)
	}
	return ""
}

func (v *view) rejectNode(pv *corev1.PersistentVolume, origin string) string {
	host, ok := hostOf(pv)
	if !ok {
		return fmt.Sprintf("its node affinity is not %s In [one hostname] alone, so it does not belong to the provisioner of one node", corev1.LabelHostname)
	}
	switch names := v.nodes.byHost[host]; {
	case len(names) == 0:
		return fmt.Sprintf("no node has the label %s=%s: if the node will not return, delete the volume", corev1.LabelHostname, host)
	case len(names) > 1:
		return fmt.Sprintf("the label %s=%s is on several nodes (%s): give each node its own", corev1.LabelHostname, host, strings.Join(names, ", "))
	case !isReferenceOf(origin, names[0]):
		return fmt.Sprintf("its node affinity names node %s, and %q names another one", names[0], origin)
	}
	return ""
}

func (v *view) rejectClass(volume *disk.Volume) string {
	class, configured := v.classes[volume.Key.Class]
	switch {
	case !configured:
		return fmt.Sprintf("the configuration has no class %q", volume.Key.Class)
	case path.Clean(volume.HostPath) != volume.HostPath || path.Dir(volume.HostPath) != class.HostDir:
		return fmt.Sprintf("its path is not that of an entry of %s, the hostDir of its class", class.HostDir)
	case disk.Mode(class.VolumeMode) != volume.Mode:
		return fmt.Sprintf("its volumeMode is %s, and that of its class in the configuration %s", volume.Mode, class.VolumeMode)
	}
	return ""
}

func rejectMeta(pv *corev1.PersistentVolume) string {
	if pv.DeletionTimestamp != nil {
		return "it is being deleted, and its disk may not be clean: let the reference finish, or clean the disk and delete the volume by hand"
	}
	for _, finalizer := range pv.Finalizers {
		if finalizer != protection && finalizer != wellknown.LocalVolumeFinalizer {
			return fmt.Sprintf("it has the finalizer %s, so another controller manages it", finalizer)
		}
	}
	for _, owner := range pv.OwnerReferences {
		if owner.Kind != "Node" || owner.APIVersion != "v1" {
			return fmt.Sprintf("it belongs to %s %s, which would delete it", owner.Kind, owner.Name)
		}
	}
	return ""
}

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
