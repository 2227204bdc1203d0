// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"stowage.dev/stowage/pkg/controller/pvbinder/rules"
	"stowage.dev/stowage/pkg/testing/builders"
)

// drivers has one migrated plugin.
var drivers = map[string]string{"kubernetes.io/aws-ebs": "ebs.csi.aws.com"}

func claim() *builders.PVC { return builders.MakePVC("data").UID("claim-uid").Class("fast") }
func volume() *builders.PV { return builders.MakePV("pv").UID("pv-uid").Class("fast") }
func late() *storagev1.StorageClass {
	return builders.MakeClass("fast").Provisioner("csi.example.com").Obj()
}
func immediate() *storagev1.StorageClass {
	return builders.MakeClass("fast").Provisioner("csi.example.com").Immediate().Obj()
}
func static() *storagev1.StorageClass {
	return builders.MakeClass("fast").Provisioner("kubernetes.io/no-provisioner").Immediate().Obj()
}

// claimed is the volume with a claimRef to the claim, in the phase.
func claimed(phase v1.PersistentVolumePhase) *builders.PV {
	return volume().ClaimRef("default", "data", "claim-uid").BoundByController().Phase(phase)
}

// bound is the claim after the writes of a binding.
func bound() *builders.PVC {
	return claim().Bound("pv").Change(func(c *v1.PersistentVolumeClaim) {
		c.Status.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		c.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	})
}

// lost is the claim that was marked Lost.
func lost() *builders.PVC { return claim().Bound("pv").Phase(v1.ClaimLost) }

func note(reason, text string) []rules.Event { return []rules.Event{{Reason: reason, Note: text}} }
func warn(reason, text string) []rules.Event {
	return []rules.Event{{Warning: true, Reason: reason, Note: text}}
}

func waitsFor(name string) []rules.Event {
	return note("ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner '"+name+"' or manually by the system administrator. "+
		"If volume creation is delayed, please verify that the provisioner is running and correctly registered.")
}

type claimCase struct {
	facts rules.ClaimFacts
	want  rules.Decision
}

func checkClaims(t *testing.T, tests map[string]claimCase) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := tc.facts
			f.Drivers = drivers
			before := f.Claim.DeepCopy()
			got := rules.DecideClaim(&f)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, f.Claim); diff != "" {
				t.Errorf("the argument was changed:\n%s", diff)
			}
		})
	}
}

// TestBinding: the four writes of a binding in their order, whichever client chose the volume.
func TestBinding(t *testing.T) {
	t.Parallel()
	refer := func(pv *builders.PV) []*v1.PersistentVolume { return []*v1.PersistentVolume{pv.Obj()} }
	named := claim().VolumeName("pv")
	checkClaims(t, map[string]claimCase{
		"a free volume was chosen: claimRef": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: immediate(), Matched: true, Match: volume().Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: claimed(v1.VolumeAvailable).Obj()},
		},
		"claimRef is written: phase of the volume": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: immediate(), Referring: refer(claimed(v1.VolumeAvailable))},
			rules.Decision{Do: rules.WriteVolumeStatus, Volume: claimed(v1.VolumeBound).Obj()},
		},
		"the volume is Bound: the claim": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: immediate(), Referring: refer(claimed(v1.VolumeBound))},
			rules.Decision{Do: rules.WriteClaim, Claim: claim().VolumeName("pv").BoundByController().BindCompleted().Obj()},
		},
		"the claim is written: its status": {
			rules.ClaimFacts{Claim: claim().VolumeName("pv").BoundByController().BindCompleted().Obj(), Volume: claimed(v1.VolumeBound).Obj()},
			rules.Decision{Do: rules.WriteClaimStatus, Claim: bound().Obj()},
		},
		"complete": {
			rules.ClaimFacts{Claim: bound().Obj(), Volume: claimed(v1.VolumeBound).Obj()},
			rules.Decision{Do: rules.None},
		},
		"late binding: a volume that the scheduler claimed": {
			rules.ClaimFacts{Claim: claim().SelectedNode("n").Obj(), Class: late(), Referring: refer(claimed(v1.VolumeAvailable))},
			rules.Decision{Do: rules.WriteVolumeStatus, Volume: claimed(v1.VolumeBound).Obj()},
		},
		"a provisioned volume, not Available yet": {
			rules.ClaimFacts{Claim: claim().Provisioner("csi.example.com").Obj(), Class: immediate(), Referring: refer(volume().ClaimRef("default", "data", "claim-uid").Phase(v1.VolumePending))},
			rules.Decision{Do: rules.WriteVolumeStatus, Volume: volume().ClaimRef("default", "data", "claim-uid").Phase(v1.VolumeBound).Obj()},
		},
		"reserved by name: the UID, and no mark of a controller": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late(), Referring: refer(volume().ClaimRef("default", "data", ""))},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().ClaimRef("default", "data", "claim-uid").Obj()},
		},
		"reserved for a former claim of the name: not for this one": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: static(), Matched: true, Referring: refer(volume().ClaimRef("default", "data", "old-uid"))},
			rules.Decision{Do: rules.None, Events: warn("ProvisioningFailed", `no persistent volume of storage class "fast" fits the claim, and nothing provisions this class`)},
		},
		"two volumes refer to the claim: the binding that has begun": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late(), Referring: []*v1.PersistentVolume{volume().Name("a").ClaimRef("default", "data", "").Obj(), claimed(v1.VolumeAvailable).Obj()}},
			rules.Decision{Do: rules.WriteVolumeStatus, Volume: claimed(v1.VolumeBound).Obj()},
		},
		"two volumes refer to the claim: the binding that has begun, whatever the order": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late(), Referring: []*v1.PersistentVolume{claimed(v1.VolumeAvailable).Obj(), volume().Name("a").ClaimRef("default", "data", "").Obj()}},
			rules.Decision{Do: rules.WriteVolumeStatus, Volume: claimed(v1.VolumeBound).Obj()},
		},
		"two volumes are reserved by name: the smaller": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late(), Referring: []*v1.PersistentVolume{volume().Name("a").Capacity("2Gi").ClaimRef("default", "data", "").Obj(), volume().ClaimRef("default", "data", "").Obj()}},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().ClaimRef("default", "data", "claim-uid").Obj()},
		},
		"two volumes are reserved by name: the smaller, whatever the order": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late(), Referring: []*v1.PersistentVolume{volume().ClaimRef("default", "data", "").Obj(), volume().Name("a").Capacity("2Gi").ClaimRef("default", "data", "").Obj()}},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().ClaimRef("default", "data", "claim-uid").Obj()},
		},
		"two volumes are reserved by name, equal: the first by name": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late(), Referring: []*v1.PersistentVolume{volume().ClaimRef("default", "data", "").Obj(), volume().Name("a").ClaimRef("default", "data", "").Obj()}},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().Name("a").ClaimRef("default", "data", "claim-uid").Obj()},
		},
		"two volumes are reserved by name, equal: the first by name, whatever the order": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late(), Referring: []*v1.PersistentVolume{volume().Name("a").ClaimRef("default", "data", "").Obj(), volume().ClaimRef("default", "data", "").Obj()}},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().Name("a").ClaimRef("default", "data", "claim-uid").Obj()},
		},
		"a volume is reserved, and the claim's selector is not valid": {
			rules.ClaimFacts{Claim: claim().MatchExpression("disk", "No").Obj(), Class: static(), Matched: true, Referring: refer(volume().ClaimRef("default", "data", ""))},
			rules.Decision{Do: rules.None, Events: append(warn("VolumeMismatch", `Cannot bind to volume "pv", which is reserved for this claim: parse spec.selector of claim default/data: "No" is not a valid label selector operator`),
				warn("ProvisioningFailed", `no persistent volume of storage class "fast" fits the claim, and nothing provisions this class`)...)},
		},
		"a reserved volume is too small: another one": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: immediate(), Matched: true, Match: volume().Obj(), Referring: refer(volume().Name("small").Capacity("1Mi").ClaimRef("default", "data", ""))},
			rules.Decision{Do: rules.WriteVolume, Volume: claimed(v1.VolumeAvailable).Obj(), Events: warn("VolumeMismatch", `Cannot bind to volume "small", which is reserved for this claim: requested PV is too small`)},
		},
		"a reserved volume of another mode: an event": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: static(), Matched: true, Referring: refer(volume().Block().ClaimRef("default", "data", ""))},
			rules.Decision{Do: rules.None, Events: append(warn("VolumeMismatch", `Cannot bind to volume "pv", which is reserved for this claim: incompatible volumeMode`),
				warn("ProvisioningFailed", `no persistent volume of storage class "fast" fits the claim, and nothing provisions this class`)...)},
		},
		"the user named the volume": {
			rules.ClaimFacts{Claim: named.Obj(), Class: late(), Volume: volume().Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: claimed(v1.VolumeAvailable).Obj()},
		},
		"the user named the volume: the claim was not bound by a controller": {
			rules.ClaimFacts{Claim: named.Obj(), Class: late(), Volume: claimed(v1.VolumeBound).Obj()},
			rules.Decision{Do: rules.WriteClaim, Claim: claim().VolumeName("pv").BindCompleted().Obj()},
		},
		"named on both sides, of another class and too small: the owners agree": {
			rules.ClaimFacts{Claim: named.Obj(), Volume: volume().Class("slow").Capacity("1Mi").ClaimRef("default", "data", "").Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().Class("slow").Capacity("1Mi").ClaimRef("default", "data", "claim-uid").Obj()},
		},
		"the named volume is not Available yet: its own decision is first": {
			rules.ClaimFacts{Claim: named.Obj(), Volume: volume().Phase(v1.VolumePending).Obj()},
			rules.Decision{Do: rules.None},
		},
		"a claim that is being deleted gets no volume": {
			rules.ClaimFacts{Claim: claim().Deleting().Obj(), Class: immediate(), Matched: true, Match: volume().Obj()},
			rules.Decision{Do: rules.None},
		},
		"ReadWriteOncePod is an access mode as any": {
			rules.ClaimFacts{Claim: claim().AccessModes(v1.ReadWriteOncePod).Obj(), Class: late(), Referring: refer(volume().AccessModes(v1.ReadWriteOncePod).ClaimRef("default", "data", ""))},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().AccessModes(v1.ReadWriteOncePod).ClaimRef("default", "data", "claim-uid").Obj()},
		},
	})
}

// TestNamedVolumes: a claim stays Pending, with an event, while the volume that it names cannot be its.
func TestNamedVolumes(t *testing.T) {
	t.Parallel()
	named := claim().VolumeName("pv")
	mismatch := func(why string) rules.Decision {
		return rules.Decision{Do: rules.None, Events: warn("VolumeMismatch", `Cannot bind to requested volume "pv": `+why)}
	}
	checkClaims(t, map[string]claimCase{
		"not found": {
			rules.ClaimFacts{Claim: named.Obj()},
			rules.Decision{Do: rules.None, Events: note("FailedBinding", `volume "pv" not found`)},
		},
		"not found, and the status is a bound claim's": {
			rules.ClaimFacts{Claim: bound().Change(func(c *v1.PersistentVolumeClaim) { c.Annotations = nil }).Obj()},
			rules.Decision{Do: rules.WriteClaimStatus, Claim: named.Obj(), Events: note("FailedBinding", `volume "pv" not found`)},
		},
		"of another claim": {
			rules.ClaimFacts{Claim: named.Obj(), Volume: volume().ClaimRef("default", "other", "u").Obj()},
			rules.Decision{Do: rules.None, Events: warn("FailedBinding", `volume "pv" already bound to a different claim.`)},
		},
		"of a former claim of this name": {
			rules.ClaimFacts{Claim: named.Obj(), Volume: volume().ClaimRef("default", "data", "old-uid").Obj()},
			rules.Decision{Do: rules.None, Events: warn("FailedBinding", `volume "pv" already bound to a different claim.`)},
		},
		"too small":                {rules.ClaimFacts{Claim: named.Obj(), Volume: volume().Capacity("1Mi").Obj()}, mismatch("requested PV is too small")},
		"being deleted":            {rules.ClaimFacts{Claim: named.Obj(), Volume: volume().Deleting().Obj()}, mismatch("the volume is marked for deletion")},
		"being deleted, claimed":   {rules.ClaimFacts{Claim: named.Obj(), Volume: claimed(v1.VolumeBound).Deleting().Obj()}, mismatch("the volume is marked for deletion")},
		"of another class, small":  {rules.ClaimFacts{Claim: named.Obj(), Volume: volume().Class("slow").Capacity("1Mi").Obj()}, mismatch("requested PV is too small")},
		"of another class":         {rules.ClaimFacts{Claim: named.Obj(), Volume: volume().Class("slow").Obj()}, mismatch("storageClassName does not match")},
		"class by beta annotation": {rules.ClaimFacts{Claim: claim().VolumeName("pv").BetaClass("old").Obj(), Volume: volume().Obj()}, mismatch("storageClassName does not match")},
		"of another mode":          {rules.ClaimFacts{Claim: named.Obj(), Volume: volume().Block().Obj()}, mismatch("incompatible volumeMode")},
		"attributes class":         {rules.ClaimFacts{Claim: named.Obj(), Volume: volume().AttributesClass("gold").Obj()}, mismatch("volumeAttributesClassName does not match")},
		"access modes":             {rules.ClaimFacts{Claim: claim().VolumeName("pv").AccessModes(v1.ReadWriteMany).Obj(), Volume: volume().Obj()}, mismatch("incompatible accessMode")},
		"its disk is missing":      {rules.ClaimFacts{Claim: named.Obj(), Volume: volume().Annotation("stowage.dev/disk", "Missing").Obj()}, mismatch("its disk is Missing")},
	})
}

// TestBoundClaims: a claim is Lost only if the API server confirms that, and recovers.
func TestBoundClaims(t *testing.T) {
	t.Parallel()
	other := volume().ClaimRef("default", "other", "u")
	misbound := warn("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
	checkClaims(t, map[string]claimCase{
		"no volume in the cache: read it": {
			rules.ClaimFacts{Claim: bound().Obj()},
			rules.Decision{Do: rules.ReadVolume},
		},
		"no volume: Lost": {
			rules.ClaimFacts{Claim: bound().Obj(), VolumeRead: true},
			rules.Decision{Do: rules.WriteClaimStatus, Claim: lost().Obj(), Events: warn("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")},
		},
		"Lost already": {rules.ClaimFacts{Claim: lost().Obj()}, rules.Decision{Do: rules.None}},
		"Lost, and the volume is there": {
			rules.ClaimFacts{Claim: lost().Obj(), Volume: claimed(v1.VolumeBound).Obj()},
			rules.Decision{Do: rules.WriteClaimStatus, Claim: bound().Obj()},
		},
		"another claim's volume in the cache: read it": {
			rules.ClaimFacts{Claim: bound().Obj(), Volume: other.Obj()},
			rules.Decision{Do: rules.ReadVolume},
		},
		"another claim's volume: Lost": {
			rules.ClaimFacts{Claim: bound().Obj(), Volume: other.Obj(), VolumeRead: true},
			rules.Decision{Do: rules.WriteClaimStatus, Claim: lost().Obj(), Events: misbound},
		},
		"the volume of a former claim of this name: Lost": {
			rules.ClaimFacts{Claim: bound().Obj(), Volume: volume().ClaimRef("default", "data", "old-uid").Obj(), VolumeRead: true},
			rules.Decision{Do: rules.WriteClaimStatus, Claim: lost().Obj(), Events: misbound},
		},
		"volumeName was removed: Lost": {
			rules.ClaimFacts{Claim: bound().VolumeName("").Obj()},
			rules.Decision{Do: rules.WriteClaimStatus, Claim: lost().VolumeName("").Obj(), Events: warn("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")},
		},
		"claimRef was removed: written again, whatever the phase": {
			rules.ClaimFacts{Claim: bound().Obj(), Volume: volume().Phase(v1.VolumeBound).Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: claimed(v1.VolumeBound).Obj()},
		},
		"the UID was removed, as by a restored backup: written again": {
			rules.ClaimFacts{Claim: bound().Obj(), Volume: volume().ClaimRef("default", "data", "").Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().ClaimRef("default", "data", "claim-uid").Obj()},
		},
		"the volume is being deleted: still the claim's": {
			rules.ClaimFacts{Claim: bound().Obj(), Volume: claimed(v1.VolumeBound).Deleting().Obj()},
			rules.Decision{Do: rules.None},
		},
		"the claim is being deleted: still bound": {
			rules.ClaimFacts{Claim: bound().Deleting().Obj(), Volume: claimed(v1.VolumeBound).Obj()},
			rules.Decision{Do: rules.None},
		},
		"Lost and not bound: Pending first": {
			rules.ClaimFacts{Claim: claim().Phase(v1.ClaimLost).Obj(), Class: immediate(), Matched: true, Match: volume().Obj()},
			rules.Decision{Do: rules.WriteClaimStatus, Claim: claim().Obj()},
		},
	})
}

// TestClasses: what a claim without a volume waits for.
func TestClasses(t *testing.T) {
	t.Parallel()
	requested := func(c *builders.PVC, name string) *builders.PVC {
		return c.Annotation("volume.kubernetes.io/storage-provisioner", name).Annotation("volume.beta.kubernetes.io/storage-provisioner", name)
	}
	inTree := builders.MakeClass("fast").Immediate()
	noClass := builders.MakePVC("data").UID("claim-uid")
	failed := note("FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	checkClaims(t, map[string]claimCase{
		"Immediate: a free volume is searched for": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: immediate()}, rules.Decision{Do: rules.Match},
		},
		"no class: a free volume is searched for": {
			rules.ClaimFacts{Claim: noClass.Obj(), Default: immediate()}, rules.Decision{Do: rules.Match},
		},
		"no such class, and a free volume: the class is read": {
			rules.ClaimFacts{Claim: claim().Obj(), Matched: true, Match: volume().Obj()}, rules.Decision{Do: rules.ReadClass},
		},
		"no such class: free volumes count": {
			rules.ClaimFacts{Claim: claim().Obj(), Matched: true, Match: volume().Obj(), ClassRead: true},
			rules.Decision{Do: rules.WriteVolume, Volume: claimed(v1.VolumeAvailable).Obj()},
		},
		"the empty class, and a free volume: there is no class to read": {
			rules.ClaimFacts{Claim: claim().Class("").Obj(), Matched: true, Match: volume().Class("").Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: claimed(v1.VolumeAvailable).Class("").Obj()},
		},
		"the class was read, and is of late binding": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late(), Matched: true, Match: volume().Obj(), ClassRead: true},
			rules.Decision{Do: rules.None, Events: note("WaitForFirstConsumer", "waiting for first consumer to be created before binding")},
		},
		"no such class": {
			rules.ClaimFacts{Claim: claim().Obj(), Matched: true},
			rules.Decision{Do: rules.None, Events: warn("ProvisioningFailed", `storageclass.storage.k8s.io "fast" not found`)},
		},
		"no class, and a default": {
			rules.ClaimFacts{Claim: noClass.Obj(), Matched: true, Default: immediate()},
			rules.Decision{Do: rules.WriteClaim, Claim: claim().Obj()},
		},
		"no class, and no default": {
			rules.ClaimFacts{Claim: noClass.Obj(), Matched: true}, rules.Decision{Do: rules.None, Events: failed},
		},
		"the empty class has no default": {
			rules.ClaimFacts{Claim: claim().Class("").Obj(), Matched: true, Default: immediate()}, rules.Decision{Do: rules.None, Events: failed},
		},
		"the empty class by beta annotation has no default": {
			rules.ClaimFacts{Claim: builders.MakePVC("data").BetaClass("").Obj(), Matched: true, Default: immediate()}, rules.Decision{Do: rules.None, Events: failed},
		},
		"late binding": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late()},
			rules.Decision{Do: rules.None, Events: note("WaitForFirstConsumer", "waiting for first consumer to be created before binding")},
		},
		"late binding, with a pod": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late(), Pods: []string{"web"}},
			rules.Decision{Do: rules.None, Events: note("WaitForPodScheduled", "waiting for pod web to be scheduled")},
		},
		"late binding, with two pods": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late(), Pods: []string{"b", "a"}},
			rules.Decision{Do: rules.None, Events: note("WaitForPodScheduled", "waiting for pods a,b to be scheduled")},
		},
		"late binding, with more pods than an event names": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: late(), Pods: []string{"g", "f", "e", "d", "c", "b", "a"}},
			rules.Decision{Do: rules.None, Events: note("WaitForPodScheduled", "waiting for pods a,b,c,d,e and 2 more to be scheduled")},
		},
		"late binding, node selected": {
			rules.ClaimFacts{Claim: claim().SelectedNode("n").Obj(), Class: late()},
			rules.Decision{Do: rules.WriteClaim, Claim: requested(claim().SelectedNode("n"), "csi.example.com").Obj(), Events: waitsFor("csi.example.com")},
		},
		"Immediate: the provisioner": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: immediate(), Matched: true},
			rules.Decision{Do: rules.WriteClaim, Claim: requested(claim(), "csi.example.com").Obj(), Events: waitsFor("csi.example.com")},
		},
		"the provisioner is named": {
			rules.ClaimFacts{Claim: requested(claim(), "csi.example.com").Obj(), Class: immediate(), Matched: true},
			rules.Decision{Do: rules.None, Events: waitsFor("csi.example.com")},
		},
		"a migrated plugin: the name of its driver": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: inTree.Provisioner("kubernetes.io/aws-ebs").Obj(), Matched: true},
			rules.Decision{Do: rules.WriteClaim, Claim: requested(claim(), "ebs.csi.aws.com").Obj(), Events: waitsFor("ebs.csi.aws.com")},
		},
		"the provisioner, and a former one was migrated": {
			rules.ClaimFacts{Claim: claim().Annotation("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com").Obj(), Class: immediate(), Matched: true},
			rules.Decision{Do: rules.WriteClaim, Claim: requested(claim(), "csi.example.com").Obj(), Events: waitsFor("csi.example.com")},
		},
		"another in-tree plugin": {
			rules.ClaimFacts{Claim: claim().Obj(), Class: inTree.Provisioner("kubernetes.io/host-path").Obj(), Matched: true},
			rules.Decision{Do: rules.None, Events: warn("ProvisioningFailed", `storage class "fast" has the in-tree provisioner "kubernetes.io/host-path", which is not supported: use a class of a CSI driver`)},
		},
		"migration: a claim of the plugin": {
			rules.ClaimFacts{Claim: requested(claim(), "kubernetes.io/aws-ebs").Obj()},
			rules.Decision{Do: rules.WriteClaim, Claim: requested(claim(), "kubernetes.io/aws-ebs").Annotation("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com").Obj()},
		},
		"migration: the older annotation": {
			rules.ClaimFacts{Claim: bound().Annotation("volume.beta.kubernetes.io/storage-provisioner", "kubernetes.io/aws-ebs").Obj()},
			rules.Decision{Do: rules.WriteClaim, Claim: bound().Annotation("volume.beta.kubernetes.io/storage-provisioner", "kubernetes.io/aws-ebs").Annotation("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com").Obj()},
		},
		"migration: a claim of the driver": {
			rules.ClaimFacts{Claim: requested(claim(), "ebs.csi.aws.com").Annotation("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com").Obj()},
			rules.Decision{Do: rules.WriteClaim, Claim: requested(claim(), "ebs.csi.aws.com").Obj()},
		},
	})
}
