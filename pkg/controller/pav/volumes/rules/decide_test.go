// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
)

type decision struct {
	facts *rules.Facts
	want  string
}

// decide checks decisions, and that the facts are not changed.
func decide(t *testing.T, cases map[string]decision) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := *tc.facts
			before.Volume, before.Claim, before.PV = tc.facts.Volume.DeepCopy(), tc.facts.Claim.DeepCopy(), tc.facts.PV.DeepCopy()
			if diff := cmp.Diff(tc.want, summary(rules.Decide(tc.facts))); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
			if !equality.Semantic.DeepEqual(before.Volume, tc.facts.Volume) || !equality.Semantic.DeepEqual(before.Claim, tc.facts.Claim) || !equality.Semantic.DeepEqual(before.PV, tc.facts.PV) {
				t.Error("the facts were changed")
			}
		})
	}
}

func TestClaim(t *testing.T) {
	t.Parallel()
	populator := &corev1.TypedObjectReference{APIGroup: new("hello.example.com"), Kind: "Hello", Name: "x"}
	snapshot := &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: "x"}
	immediate := func(f *rules.Facts) {
		f.Class.VolumeBindingMode = nil
		delete(f.Claim.Annotations, rules.AnnSelectedNode)
	}
	decide(t, map[string]decision{
		"a claim":                                  {facts(), "Begin Validating by p-1 on n1"},
		"a cached claim is read first":             {facts(cached), "Read"},
		"the claim is gone":                        {facts(noClaim), "None"},
		"the claim is being deleted":               {facts(deletingClaim), "None"},
		"the claim is bound":                       {facts(claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" })), "None"},
		"no node is selected":                      {facts(claim(func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil })), "None"},
		"the selected node is gone":                {facts(noNode), "ReleaseNode"},
		"an immediate class":                       {facts(immediate), "Begin Validating by p-1 on "},
		"the PersistentVolume is there":            {facts(pv(corev1.VolumeAvailable)), "Refuse NameInUse"},
		"no PavProvisioner has the name":           {facts(func(f *rules.Facts) { f.Provisioner = nil }), "None"},
		"the provisioner is being deleted":         {facts(func(f *rules.Facts) { f.Provisioner.Deleting = true }), "Refuse ProvisionerNotAccepted"},
		"the provisioner is not accepted":          {facts(func(f *rules.Facts) { f.Provisioner.Problem = "bad" }), "Refuse ProvisionerNotAccepted"},
		"the provisioner was not validated yet":    {facts(func(f *rules.Facts) { f.Provisioner.Revision = "" }), "None"},
		"the provisioner is static only":           {facts(func(f *rules.Facts) { f.Provisioner.Dynamic = false }), "Refuse ProvisionerNotAccepted"},
		"the class is gone":                        {facts(func(f *rules.Facts) { f.Class = nil }), "Refuse StorageClassUnsuitable"},
		"the class has another provisioner":        {facts(func(f *rules.Facts) { f.Class.Provisioner = "q" }), "Refuse StorageClassUnsuitable"},
		"a reserved parameter":                     {facts(func(f *rules.Facts) { f.Class.Parameters = map[string]string{"csi.storage.k8s.io/fstype": "xfs"} }), "Refuse StorageClassUnsuitable"},
		"local volumes of an immediate class":      {facts(immediate, func(f *rules.Facts) { f.Provisioner.Access.SelectedNode = true }), "Refuse StorageClassUnsuitable"},
		"topology of an immediate class":           {facts(immediate, func(f *rules.Facts) { f.Provisioner.Access.TopologyKeys = []string{"zone"} }), "Refuse StorageClassUnsuitable"},
		"allowed topologies of an immediate class": {facts(immediate, func(f *rules.Facts) { f.Class.AllowedTopologies = make([]corev1.TopologySelectorTerm, 1) }), "Refuse StorageClassUnsuitable"},
		"a selector":                               {facts(claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} })), "Refuse NotSupported"},
		"a snapshot":                               {facts(claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource = snapshot })), "Refuse NotSupported"},
		"a clone from another namespace": {facts(claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "x", Namespace: new("y")}
		})), "Refuse NotSupported"},
		"a volume populator":  {facts(claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSourceRef = populator })), "None"},
		"an attributes class": {facts(claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("gold") })), "Refuse NotSupported"},
		"a claim that has no space in a PavVolume": {facts(claim(func(c *corev1.PersistentVolumeClaim) {
			c.Annotations["x"] = strings.Repeat("<", 100<<10) // 6 bytes each in JSON
		})), "Refuse NotSupported"},
		"a template that fails": {facts(func(f *rules.Facts) { f.Evaluated.Problem = "line 1" }), "Refuse ValidationFailed"},
		"a volume mode":         {facts(claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) })), "Refuse ValidationFailed"},
		"an access mode": {facts(claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadWriteMany)
		})), "Refuse ValidationFailed"},
		"too large":                  {facts(func(f *rules.Facts) { f.Evaluated.MaxCapacity = new(int64(1<<30 - 1)) }), "Refuse ValidationFailed"},
		"the largest":                {facts(func(f *rules.Facts) { f.Evaluated.MaxCapacity = new(int64(1 << 30)) }), "Begin Validating by p-1 on n1"},
		"no limit, so not too small": {facts(func(f *rules.Facts) { f.Evaluated.MinCapacity = new(int64(1 << 40)) }), "Begin Validating by p-1 on n1"},
		"too small": {facts(func(f *rules.Facts) {
			f.Evaluated.MinCapacity = new(int64(2<<30 + 1))
			f.Claim.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
		}), "Refuse ValidationFailed"},
	})
}

func TestValidation(t *testing.T) {
	t.Parallel()
	const validating, validation = stowage.PavVolumeValidating, stowage.PavStepValidation
	away := func(p *podstep.Pod) { p.Adoptable = false }
	decide(t, map[string]decision{
		"the pod is announced":                  {facts(volume(validating)), "Record Validating Validation/1"},
		"no pod":                                {facts(volume(validating), noPod), "Record Creating"},
		"the class was deleted after it began":  {facts(volume(validating), func(f *rules.Facts) { f.Class = nil }), "Record Validating Validation/1"},
		"fields refuse the claim":               {facts(volume(validating), func(f *rules.Facts) { f.Evaluated.AccessModes = nil }), "Record Pending ValidationFailed"},
		"the pod is created":                    {facts(volume(validating, announced(validation))), "CreatePod"},
		"stale facts create no pod":             {facts(volume(validating, announced(validation)), cached), "Read"},
		"the answer of the creation was lost":   {facts(volume(validating, announced(validation)), pod()), "Record Validating Validation/3 running"},
		"a pod that a tenant could have made":   {facts(volume(validating, announced(validation)), pod(away)), "Record Validating Validation/3 failed"},
		"the tenant's pod has succeeded":        {facts(volume(validating, announced(validation)), pod(away, returned(succeeded))), "Record Validating Validation/3 failed"},
		"a known pod in a tenant's namespace":   {facts(volume(validating, created(validation)), pod(away, returned(succeeded))), "Record Validating Validation/3 succeeded"},
		"another namespace is evaluated":        {facts(volume(validating, announced(validation)), func(f *rules.Facts) { f.Evaluated.Namespace = "ns" }), "Record Validating"},
		"the pod runs":                          {facts(volume(validating, created(validation)), pod()), "Record Validating Validation/3 running"},
		"the image cannot be pulled":            {facts(volume(validating, created(validation)), pod(func(p *podstep.Pod) { p.Problem = "ImagePullBackOff" })), "Record Validating Validation/3 running PodNotRunning"},
		"time is over":                          {facts(volume(validating, created(validation)), pod(), func(f *rules.Facts) { f.Now = now.Add(9 * time.Minute) }), "Record Validating Validation/3 failed"},
		"the pod has succeeded":                 {facts(volume(validating, created(validation)), pod(returned(succeeded))), "Record Validating Validation/3 succeeded"},
		"the pod has failed":                    {facts(volume(validating, created(validation)), pod(returned(stowage.PavStepResult{}))), "Record Validating Validation/3 failed"},
		"the pod was deleted by force":          {facts(volume(validating, created(validation))), "Record Validating Validation/3 failed"},
		"another pod has its name":              {facts(volume(validating, created(validation)), pod(returned(succeeded), func(p *podstep.Pod) { p.UID = "x" })), "Record Validating Validation/3 failed"},
		"then it is deleted":                    {facts(volume(validating, ended(validation, succeeded)), pod(returned(succeeded))), "DeletePod pod-uid"},
		"and its finalizer removed":             {facts(volume(validating, ended(validation, succeeded)), pod(returned(succeeded), deletedAgo(0))), "ReleasePod pod-uid"},
		"but not before it has ended":           {facts(volume(validating, ended(validation, succeeded)), pod(deletedAgo(0))), "Wait 1m0s"},
		"a node that does not end it":           {facts(volume(validating, ended(validation, succeeded)), pod(deletedAgo(time.Hour))), "Record Validating Validation/3 succeeded PodRemains"},
		"another finalizer":                     {facts(volume(validating, ended(validation, succeeded)), pod(returned(succeeded), deletedAgo(0), func(p *podstep.Pod) { p.Finalized = false })), "Wait"},
		"then the volume is created":            {facts(volume(validating, ended(validation, succeeded))), "Record Creating"},
		"or the claim refused":                  {facts(volume(validating, ended(validation, stowage.PavStepResult{}))), "Record Pending ValidationFailed"},
		"the claim is gone, no pod":             {facts(volume(validating), noClaim), "Record Pending ClaimGone"},
		"the claim is gone from the cache":      {facts(volume(validating), noClaim, cached), "Read"},
		"the claim is gone, a pod runs":         {facts(volume(validating, created(validation)), pod(), noClaim), "Record Validating Validation/3 failed"},
		"the claim is being deleted":            {facts(volume(validating), deletingClaim), "Record Pending ClaimGone"},
		"the claim was bound to another volume": {facts(volume(validating), claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "x" })), "Record Pending ClaimGone"},
		"the PavVolume is being deleted":        {facts(volume(validating, deletingVolume)), "Record Pending ClaimGone"},
		"the revision is gone":                  {facts(volume(validating), func(f *rules.Facts) { f.Made.Problem = "gone" }), "Record Pending RevisionMissing"},
	})
}

func TestCreation(t *testing.T) {
	t.Parallel()
	const creating, creation = stowage.PavVolumeCreating, stowage.PavStepCreation
	capacity := func(text string) stowage.PavStepResult {
		return stowage.PavStepResult{Succeeded: true, Capacity: &text}
	}
	handle := func(text string) stowage.PavStepResult {
		return stowage.PavStepResult{Succeeded: true, Capacity: new("1Gi"), Handle: &text}
	}
	field := func(handle string) change { return func(f *rules.Facts) { f.Evaluated.Handle = &handle } }
	sized := func(f *rules.Facts) { f.Evaluated.Capacity = new(int64(1 << 30)) }
	full := func(f *rules.Facts) { f.NoCapacity = "1Gi does not fit" }
	long := string(make([]byte, 129))
	decide(t, map[string]decision{
		"the pod is announced":              {facts(volume(creating)), "Record Creating Creation/1"},
		"the pod is created":                {facts(volume(creating, announced(creation))), "CreatePod"},
		"a template that fails":             {facts(volume(creating), func(f *rules.Facts) { f.Evaluated.Problem = "line 1" }), "Record Pending CreationFailed"},
		"a handle field with a ^":           {facts(volume(creating), field("a^b")), "Record Pending CreationFailed"},
		"a handle field that is in use":     {facts(volume(creating), field("h"), func(f *rules.Facts) { f.HandleUser = "x" }), "Record Pending HandleInUse"},
		"the selected node is gone":         {facts(volume(creating), noNode), "Record Pending NodeNotFound"},
		"the node has no capacity":          {facts(volume(creating), full), "Record Pending NodeUnsuitable"},
		"no pod, and a capacity":            {facts(volume(creating), noPod, sized), "Record Publishing"},
		"no pod, and no capacity":           {facts(volume(creating), noPod), "Record Pending CreationFailed"},
		"no pod, and a capacity too small":  {facts(volume(creating), noPod, func(f *rules.Facts) { f.Evaluated.Capacity = new(int64(1)) }), "Record Pending CreationFailed"},
		"the pod has reported all":          {facts(volume(creating, ended(creation, handle("h")))), "Record Publishing"},
		"the pod has failed":                {facts(volume(creating, ended(creation, stowage.PavStepResult{}))), "Record Reverting CreationFailed"},
		"the pod requests another node":     {facts(volume(creating, ended(creation, stowage.PavStepResult{Reschedule: true}))), "Record Reverting NodeUnsuitable"},
		"a template fails after the pod":    {facts(volume(creating, ended(creation, handle("h"))), func(f *rules.Facts) { f.Evaluated.Problem = "line 1" }), "Record Reverting CreationFailed"},
		"no capacity":                       {facts(volume(creating, ended(creation, succeeded))), "Record Reverting CreationFailed"},
		"no capacity, but a field":          {facts(volume(creating, ended(creation, succeeded)), sized), "Record Publishing"},
		"the field counts, not the file":    {facts(volume(creating, ended(creation, capacity("1"))), sized), "Record Publishing"},
		"a capacity that is no quantity":    {facts(volume(creating, ended(creation, capacity("big")))), "Record Reverting CreationFailed"},
		"a capacity that is too small":      {facts(volume(creating, ended(creation, capacity("1073741823")))), "Record Reverting CreationFailed"},
		"a negative capacity":               {facts(volume(creating, ended(creation, capacity("-1Gi")))), "Record Reverting CreationFailed"},
		"an empty handle":                   {facts(volume(creating, ended(creation, handle("")))), "Record Reverting CreationFailed"},
		"a handle with a ^":                 {facts(volume(creating, ended(creation, handle("a^b")))), "Record Reverting CreationFailed"},
		"a handle that is too long":         {facts(volume(creating, ended(creation, handle(long)))), "Record Reverting CreationFailed"},
		"the claim is gone before the pod":  {facts(volume(creating, announced(creation)), noClaim), "Record Pending ClaimGone"},
		"the claim is gone, the pod runs":   {facts(volume(creating, created(creation)), pod(), noClaim), "Record Creating Creation/3 failed"},
		"the claim is gone, an unknown pod": {facts(volume(creating, announced(creation)), pod(), noClaim), "Record Creating Creation/3 failed"},
		"the claim is gone after the pod":   {facts(volume(creating, ended(creation, handle("h"))), noClaim), "Record Reverting ClaimGone"},
		"a pod that may not be ours":        {facts(volume(creating, announced(creation)), pod(func(p *podstep.Pod) { p.Adoptable = false })), "Record Creating Creation/3 failed"},
		"and is removed before anything":    {facts(volume(creating, ended(creation, stowage.PavStepResult{})), pod()), "DeletePod pod-uid"},
		"the provisioner is deleted then":   {facts(volume(creating, ended(creation, handle("h"))), func(f *rules.Facts) { f.Provisioner.Deleting = true }), "Record Publishing"},
		"a phase of a later version":        {facts(volume("Cloning")), "Record Cloning NotSupported"},
	})
}

func TestPublishing(t *testing.T) {
	t.Parallel()
	const publishing = stowage.PavVolumePublishing
	foreign := func(v *corev1.PersistentVolume) { v.Spec.CSI.VolumeHandle = "x" }
	used := func(f *rules.Facts) { f.HandleUser = "x" }
	moved := claim(func(c *corev1.PersistentVolumeClaim) { c.Annotations[rules.AnnSelectedNode] = "n2" })
	decide(t, map[string]decision{
		"the volume is created":                 {facts(volume(publishing)), "CreatePV"},
		"but not from a cache":                  {facts(volume(publishing), cached), "Read"},
		"the answer was lost":                   {facts(volume(publishing), pv("")), "Record Provisioned ProvisioningSucceeded"},
		"and the claim is gone":                 {facts(volume(publishing), pv(corev1.VolumeReleased), noClaim), "Record Provisioned ProvisioningSucceeded"},
		"a foreign volume has the name":         {facts(volume(publishing), pv("", foreign)), "Record Publishing NameInUse"},
		"the claim is gone":                     {facts(volume(publishing), noClaim), "Record Reverting ClaimGone"},
		"the claim is gone from the cache":      {facts(volume(publishing), noClaim, cached), "Read"},
		"the handle is in use":                  {facts(volume(publishing), used), "Record Reverting HandleInUse"},
		"the handle is in use, from a cache":    {facts(volume(publishing), used, cached), "Read"},
		"another node is selected":              {facts(volume(publishing), moved), "CreatePV"},
		"another node, of a local volume":       {facts(volume(publishing), moved, localOnly), "Record Reverting SelectedNodeChanged"},
		"the node of a local volume is gone":    {facts(volume(publishing), noNode, localOnly), "Record Publishing NodeNotFound notNodeExists"},
		"the node of another one is gone":       {facts(volume(publishing), noNode), "CreatePV"},
		"the node of a local volume has labels": {facts(volume(publishing), localOnly), "CreatePV"},
		"the node does not have the labels":     {facts(volume(publishing), func(f *rules.Facts) { f.Made.Access.TopologyKeys = []string{"zone"} }), "Record Publishing NodeLabelMissing"},
	})
}

func TestPending(t *testing.T) {
	t.Parallel()
	const pending = stowage.PavVolumePending
	reschedule := func(v *stowage.PavVolume) { v.Status.Reschedule = true }
	decide(t, map[string]decision{
		"the controller was killed before the status": {facts(volume("")), "Begin Validating by p-1 on n1"},
		"before the next attempt":                     {facts(volume(pending, failures(1, 5*time.Second))), "Wait 5s"},
		"the next attempt":                            {facts(volume(pending, failures(1, 0))), "Begin Validating by p-1 on n1"},
		"by the corrected revision":                   {facts(volume(pending, failures(1, 0)), func(f *rules.Facts) { f.Provisioner.Revision = "p-2" }), "Begin Validating by p-2 on n1"},
		"the clock was set to the past":               {facts(volume(pending, failures(9, time.Hour))), "Begin Validating by p-1 on n1"},
		"the provisioner is not accepted now":         {facts(volume(pending), func(f *rules.Facts) { f.Provisioner.Problem = "bad" }), "Record Pending ProvisionerNotAccepted"},
		"the class is gone":                           {facts(volume(pending), func(f *rules.Facts) { f.Class = nil }), "Record Pending StorageClassUnsuitable"},
		"the provisioner is being deleted":            {facts(volume(pending), func(f *rules.Facts) { f.Provisioner.Deleting = true }), "DeleteVolume"},
		"the provisioner was created again":           {facts(volume(pending), func(f *rules.Facts) { f.Provisioner.UID = "other" }), "DeleteVolume"},
		"the claim is gone":                           {facts(volume(pending), noClaim), "DeleteVolume"},
		"then its finalizer is removed":               {facts(volume(pending, deletingVolume), noClaim), "ReleaseVolume"},
		"the PavVolume is being deleted":              {facts(volume(pending, deletingVolume)), "ReleaseVolume"},
		"the claim is gone from the cache":            {facts(volume(pending), noClaim, cached), "Read"},
		"another node is to be selected":              {facts(volume(pending, reschedule)), "ReleaseNode"},
		"of a claim in the cache":                     {facts(volume(pending, reschedule), cached), "Read"},
		"it was removed":                              {facts(volume(pending, reschedule, failures(3, time.Minute)), claim(func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil })), "Record Pending CreationFailed"},
		"another one is selected":                     {facts(volume(pending, reschedule), claim(func(c *corev1.PersistentVolumeClaim) { c.Annotations[rules.AnnSelectedNode] = "n2" })), "Record Pending"},
		"the selected node is gone":                   {facts(volume(pending), noNode), "ReleaseNode"},
	})
}

func TestProvisioned(t *testing.T) {
	t.Parallel()
	const provisioned = stowage.PavVolumeProvisioned
	retained := func(v *stowage.PavVolume) { v.Status.ReclaimPolicy = corev1.PersistentVolumeReclaimRetain }
	settled := func(v *stowage.PavVolume) {
		v.Status.ObservedGeneration = 1
		v.Status.Conditions = []metav1.Condition{
			{Type: stowage.ConditionProvisioned, Status: metav1.ConditionTrue, Reason: "Provisioned", ObservedGeneration: 1},
			{Type: stowage.ConditionNodeExists, Status: metav1.ConditionTrue, Reason: "NodeFound", ObservedGeneration: 1},
		}
	}
	staged := func(f *rules.Facts) { f.StagedOn = []string{"n1"} }
	unclaimed := func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }
	decide(t, map[string]decision{
		"a bound volume":         {facts(volume(provisioned, settled), pv(corev1.VolumeBound)), "Wait"},
		"its conditions are set": {facts(volume(provisioned), pv(corev1.VolumeBound)), "Record Provisioned"},
		"a larger request": {facts(volume(provisioned), pv(corev1.VolumeBound), claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		})), "Record Provisioned ExpansionNotSupported"},
		"deleted by hand while bound":        {facts(volume(provisioned, settled), pv(corev1.VolumeBound, deletingPV)), "Wait"},
		"released":                           {facts(volume(provisioned), pv(corev1.VolumeReleased), noClaim), "Record Deleting"},
		"released, deleted by hand":          {facts(volume(provisioned), pv(corev1.VolumeReleased, deletingPV), noClaim), "Record Deleting"},
		"released in the cache":              {facts(volume(provisioned), pv(corev1.VolumeReleased), noClaim, cached), "Read"},
		"released, but the claim is there":   {facts(volume(provisioned, settled), pv(corev1.VolumeReleased)), "Wait"},
		"released and staged":                {facts(volume(provisioned), pv(corev1.VolumeReleased), noClaim, staged), "Record Provisioned VolumeStaged notDeletable"},
		"released and retained":              {facts(volume(provisioned, settled, retained), pv(corev1.VolumeReleased, retain, unfinalized), noClaim), "Wait"},
		"switched to Retain":                 {facts(volume(provisioned), pv(corev1.VolumeBound, retain)), "Record Provisioned"},
		"then the finalizer is removed":      {facts(volume(provisioned, retained), pv(corev1.VolumeBound, retain)), "RemovePVFinalizer"},
		"switched to Delete":                 {facts(volume(provisioned, retained), pv(corev1.VolumeReleased, unfinalized), noClaim), "Record Provisioned"},
		"then the finalizer is added":        {facts(volume(provisioned), pv(corev1.VolumeReleased, unfinalized), noClaim), "AddPVFinalizer"},
		"not while it is being deleted":      {facts(volume(provisioned), pv(corev1.VolumeReleased, unfinalized, deletingPV), noClaim), "Record Deleting"},
		"for another claim":                  {facts(volume(provisioned, settled), pv(corev1.VolumeAvailable, unclaimed), noClaim), "Wait"},
		"deleted while for another claim":    {facts(volume(provisioned), pv(corev1.VolumeAvailable, unclaimed, deletingPV), noClaim), "Record Deleting"},
		"removed, the claim is there":        {facts(volume(provisioned)), "Record Provisioned PersistentVolumeMissing"},
		"removed, says the cache":            {facts(volume(provisioned), noClaim, cached), "Read"},
		"removed without its finalizer":      {facts(volume(provisioned), noClaim), "Record Deleting"},
		"removed, but staged":                {facts(volume(provisioned), noClaim, staged), "Record Provisioned VolumeStaged notDeletable"},
		"removed after it was retained":      {facts(volume(provisioned, retained), noClaim), "Record Provisioned Retained"},
		"then the PavVolume is deleted":      {facts(volume(provisioned, retained, deletingVolume), noClaim), "ReleaseVolume"},
		"created again from a backup":        {facts(volume(provisioned, retained), pv("", retain, unfinalized, func(v *corev1.PersistentVolume) { v.UID = "new" })), "Record Provisioned"},
		"another volume has its name":        {facts(volume(provisioned), pv(corev1.VolumeReleased, func(v *corev1.PersistentVolume) { v.Spec.CSI = nil }), noClaim), "Record Provisioned PersistentVolumeNotOwned"},
		"the PavVolume is deleted too early": {facts(volume(provisioned, settled, deletingVolume), pv(corev1.VolumeBound)), "Wait"},
		"the node is gone":                   {facts(volume(provisioned), pv(corev1.VolumeBound), noNode, localOnly), "Record Provisioned NodeNotFound notNodeExists"},
	})
}

func TestDeletion(t *testing.T) {
	t.Parallel()
	const deleting, deletion = stowage.PavVolumeDeleting, stowage.PavStepDeletion
	released := pv(corev1.VolumeReleased)
	again := func(count int32, retry time.Duration) func(*stowage.PavVolume) {
		return func(v *stowage.PavVolume) { failures(0, retry)(v); v.Status.DeletionFailures = count }
	}
	used := func(f *rules.Facts) { f.HandleUser = "x" }
	decide(t, map[string]decision{
		"the pod is announced":              {facts(volume(deleting), released, noClaim), "Record Deleting Deletion/1"},
		"the pod is created":                {facts(volume(deleting, announced(deletion)), released, noClaim), "CreatePod"},
		"no pod":                            {facts(volume(deleting), released, noClaim, noPod), "Record Deleted"},
		"staged again":                      {facts(volume(deleting, announced(deletion)), released, noClaim, func(f *rules.Facts) { f.StagedOn = []string{"n1"} }), "Record Deleting Deletion/3 VolumeStaged notDeletable"},
		"switched to Retain":                {facts(volume(deleting, announced(deletion)), pv(corev1.VolumeReleased, retain), noClaim), "Record Deleting Deletion/3 Retained notDeletable"},
		"switched to Retain after the pod":  {facts(volume(deleting, ended(deletion, succeeded)), pv(corev1.VolumeReleased, retain), noClaim), "Record Deleted"},
		"available again":                   {facts(volume(deleting), pv(corev1.VolumeAvailable), noClaim), "Record Deleting PersistentVolumeNotReleased notDeletable"},
		"another volume has the handle":     {facts(volume(deleting), released, noClaim, used), "Record Deleting HandleInUse notDeletable"},
		"the pod has succeeded":             {facts(volume(deleting, ended(deletion, succeeded)), released, noClaim), "Record Deleted"},
		"the pod has failed":                {facts(volume(deleting, ended(deletion, stowage.PavStepResult{})), released, noClaim), "Record Deleting DeletionFailed notDeletable"},
		"before the next one":               {facts(volume(deleting, again(2, 9*time.Second)), released, noClaim), "Wait 9s"},
		"the next one":                      {facts(volume(deleting, again(2, 0)), released, noClaim), "Record Deleting Deletion/1"},
		"a template that fails":             {facts(volume(deleting), released, noClaim, func(f *rules.Facts) { f.Evaluated.Problem = "line 1" }), "Record Deleting DeletionFailed notDeletable"},
		"the provisioner is gone":           {facts(volume(deleting), released, noClaim, func(f *rules.Facts) { f.Provisioner = nil }), "Record Deleting Deletion/1"},
		"the revision is gone":              {facts(volume(deleting), released, noClaim, func(f *rules.Facts) { f.Made.Problem = "gone" }), "Record Deleting RevisionMissing notDeletable"},
		"the revision is gone, use another": {facts(volume(deleting, func(v *stowage.PavVolume) { v.Spec.UseRevision = stowage.UseRevisionLatest }), released, noClaim, func(f *rules.Facts) { f.Made.Problem = "gone" }), "Record Deleting Deletion/1"},
		"the node is gone":                  {facts(volume(deleting), released, noClaim, noNode, localOnly), "Record Deleting NodeNotFound notDeletable notNodeExists"},
		"not because of a cache":            {facts(volume(deleting, deletingVolume), released, noClaim, noNode, localOnly, cached), "Read"},
		"and an administrator gives it up":  {facts(volume(deleting, deletingVolume), released, noClaim, noNode, localOnly), "Record Deleted notNodeExists"},
		"deleted":                           {facts(volume(stowage.PavVolumeDeleted), released, noClaim), "DeletePV pv-uid"},
		"deleted, its volume too":           {facts(volume(stowage.PavVolumeDeleted), pv(corev1.VolumeReleased, deletingPV), noClaim), "RemovePVFinalizer"},
		"another finalizer is left":         {facts(volume(stowage.PavVolumeDeleted), pv(corev1.VolumeReleased, deletingPV, unfinalized), noClaim), "DeleteVolume"},
		"no volume is left":                 {facts(volume(stowage.PavVolumeDeleted), noClaim), "DeleteVolume"},
		"nothing is left":                   {facts(volume(stowage.PavVolumeDeleted, deletingVolume), noClaim), "ReleaseVolume"},
	})
}

func TestReverting(t *testing.T) {
	t.Parallel()
	const reverting, deletion = stowage.PavVolumeReverting, stowage.PavStepDeletion
	decide(t, map[string]decision{
		"the pod is announced":           {facts(volume(reverting)), "Record Reverting Deletion/1"},
		"no pod":                         {facts(volume(reverting), noPod), "Record Pending"},
		"the pod is created":             {facts(volume(reverting, announced(deletion))), "CreatePod"},
		"the pod has failed":             {facts(volume(reverting, ended(deletion, stowage.PavStepResult{}))), "Record Reverting DeletionFailed"},
		"another volume has the handle":  {facts(volume(reverting), func(f *rules.Facts) { f.HandleUser = "x" }), "Record Reverting HandleInUse"},
		"done":                           {facts(volume(reverting, ended(deletion, succeeded))), "Record Pending"},
		"the claim is gone":              {facts(volume(reverting, announced(deletion)), noClaim), "CreatePod"},
		"the PavVolume is being deleted": {facts(volume(reverting, announced(deletion), deletingVolume)), "CreatePod"},
	})
}
