// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
	"stowage.dev/stowage/pkg/pav/report"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// dynamic returns the live facts about a dynamic volume that a pod on node n1 waits for.
func dynamic() *Facts {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:               &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: "claim"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "p", VolumeHandle: "h"}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	return &Facts{
		Now: now, Live: true, Used: true, PVs: []*corev1.PersistentVolume{pv},
		Staging: &stowage.PavStaging{
			ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "u", Finalizers: []string{wellknown.PavStagingFinalizer}},
			Spec:       stowage.PavStagingSpec{Provisioner: "p", Handle: "h", NodeName: "n1", BootID: "b1"},
		},
		Claim:       &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "claim"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}},
		Volume:      &stowage.PavVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Status: stowage.PavVolumeStatus{Phase: stowage.PavVolumeProvisioned}},
		Node:        &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		Provisioner: &Provisioner{Name: "p", Revision: "r2", Static: true},
		Evaluated: Evaluated{
			HasPod: true, Namespace: "pav", VolumeModes: []corev1.PersistentVolumeMode{corev1.PersistentVolumeFilesystem},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		},
		Limits: podstep.Limits{Timeout: time.Minute, BackoffFirst: time.Second, BackoffLast: 8 * time.Second},
	}
}

// in returns facts in a phase, after attempt 1 began.
func in(phase stowage.PavStagingPhase, changes ...func(*Facts)) *Facts {
	f := dynamic()
	f.Staging.Status = stowage.PavStagingStatus{Phase: phase, Attempt: 1, BootID: "b1", Revision: "r1", VolumeName: "pv"}
	for _, change := range changes {
		change(f)
	}
	return f
}

// step has a helper pod announced that started a second ago.
func step(name stowage.PavStepName) func(*Facts) {
	return func(f *Facts) {
		f.Staging.Status.Step = podstep.New(name, "u", 1, now.Add(-time.Second))
		f.Staging.Status.Step.PodNamespace, f.Staging.Status.Step.Revision = "pav", "r1"
	}
}

// pod has the helper pod exist.
func pod(changes ...func(*podstep.Pod)) func(*Facts) {
	return func(f *Facts) {
		f.Staging.Status.Step.PodUID = "pod"
		f.Pod = &podstep.Pod{UID: "pod", Adoptable: true, Finalized: true}
		for _, change := range changes {
			change(f.Pod)
		}
	}
}

func isReady(p *podstep.Pod) { p.Ready = true }
func isDone(p *podstep.Pod)  { p.Done = true }

// ended has the helper pod end.
func ended(succeeded bool, message string, volume report.Volume) func(*podstep.Pod) {
	return func(p *podstep.Pod) {
		p.Over, p.Result, p.Volume = true, &stowage.PavStepResult{Succeeded: succeeded, Message: message}, volume
	}
}

// done has the result of the helper pod, which is gone, recorded.
func done(succeeded bool, message string) func(*Facts) {
	return func(f *Facts) {
		f.Staging.Status.Step.PodUID = "pod"
		f.Staging.Status.Step.Result = &stowage.PavStepResult{Succeeded: succeeded, Message: message}
	}
}

func deleted(f *Facts)    { f.Staging.DeletionTimestamp = new(metav1.NewTime(now)) }
func rebooted(f *Facts)   { f.Staging.Spec.BootID = "b2" }
func unused(f *Facts)     { f.Used = false }
func stale(f *Facts)      { f.Live = false }
func unfinished(f *Facts) { f.Staging.Finalizers = nil }
func stagedBy(f *Facts)   { f.Staging.Status.StagedAttempt = 1 }
func static(f *Facts)     { f.Volume = nil }
func failures(f *Facts)   { f.Staging.Status.Failures = 2 }
func block(f *Facts)      { f.PVs[0].Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }

var directory = report.Volume{Kind: report.Directory}

// describe describes a step in a line.
func describe(s Step) string {
	switch s := s.(type) {
	case Record:
		text := "Record " + string(s.Status.Phase)
		if step := s.Status.Step; step != nil {
			text += fmt.Sprintf(" %s %d", step.Name, step.Attempt)
			if step.PodUID != "" {
				text += " " + string(step.PodUID)
			}
			if step.Result != nil {
				text += fmt.Sprintf(" result %t", step.Result.Succeeded)
			}
		}
		if s.Status.Phase == stowage.PavStagingStaged && s.Status.Failures > 0 {
			text += fmt.Sprintf(" failures %d", s.Status.Failures)
		}
		if s.Event.Reason != "" {
			text += " " + string(s.Event.Reason)
		}
		if s.Event.ConditionOnly {
			text += " (no event)"
		}
		if s.Status.RetryTime != nil {
			text += " retry " + s.Status.RetryTime.Sub(now).String()
		}
		return text
	case Begin:
		return "Begin " + string(s.Status.Phase) + " " + s.Status.Revision
	case Wait:
		return strings.TrimSpace(fmt.Sprintf("Wait %s %s", s.Reason, s.For))
	case Delete:
		return strings.TrimSpace("Delete " + string(s.Event.Reason))
	default:
		return strings.TrimPrefix(fmt.Sprintf("%T", s), "rules.")
	}
}

// Each decision follows from the phase and from what has changed since.
func TestDecide(t *testing.T) {
	t.Parallel()
	const (
		pending, validating, staging = stowage.PavStagingPending, stowage.PavStagingValidating, stowage.PavStagingStaging
		staged, unstaging, clearing  = stowage.PavStagingStaged, stowage.PavStagingUnstaging, stowage.PavStagingClearing
		byStaging, byUnstaging       = stowage.PavStepStaging, stowage.PavStepUnstaging
	)
	for name, tc := range map[string]struct {
		facts *Facts
		want  string
	}{
		"no staging": {&Facts{}, "None"},

		"requested":                       {in("", unfinished), "AddFinalizer"},
		"requested, facts not live":       {in("", unfinished, stale), "Read"},
		"requested, with finalizer":       {in(pending), "Begin Staging r2"},
		"requested, static":               {in(pending, static), "Begin Validating r2"},
		"requested, backoff":              {in(pending, func(f *Facts) { f.Staging.Status.RetryTime = new(metav1.NewTime(now.Add(3 * time.Second))) }), "Wait  3s"},
		"requested, not validated yet":    {in(pending, func(f *Facts) { f.Provisioner.Revision = "" }), "Wait  0s"},
		"nothing there, deleted":          {in(pending, deleted), "Release"},
		"nothing there, deleted, stale":   {in(pending, deleted, stale), "Read"},
		"nothing there, already released": {in(pending, deleted, unfinished), "None"},
		"was staged, kubelet gave up":     {in(pending, stagedBy, unused), "Delete"},

		"validation is announced":       {in(validating, static), "Record Validating Validation 2"},
		"no validation pod":             {in(validating, static, func(f *Facts) { f.Evaluated.HasPod = false }), "Record Staging"},
		"validation pod created":        {in(validating, static, step(stowage.PavStepValidation)), "CreatePod"},
		"validation pod has failed":     {in(validating, static, step(stowage.PavStepValidation), pod(ended(false, "no", report.Volume{}))), "Record Validating Validation 1 pod result false"},
		"validation has failed":         {in(validating, static, step(stowage.PavStepValidation), done(false, "no")), "Record Pending ValidationFailed retry 1s"},
		"validation has succeeded":      {in(validating, static, step(stowage.PavStepValidation), done(true, "")), "Record Staging"},
		"validation, deleted":           {in(validating, static, step(stowage.PavStepValidation), pod(), deleted), "Record Validating Validation 1 pod result false"},
		"validation, deleted, pod gone": {in(validating, static, step(stowage.PavStepValidation), done(false, ""), deleted), "Record Pending NotRequested"},
		"validation, spec refuses":      {in(validating, static, func(f *Facts) { f.Evaluated.AccessModes = nil }), "Record Pending ValidationFailed retry 1s"},

		"staging pod is announced":        {in(staging), "Record Staging Staging 2"},
		"staging pod is created":          {in(staging, step(byStaging)), "CreatePod"},
		"staging pod is created, stale":   {in(staging, step(byStaging), stale), "Read"},
		"staging pod is known":            {in(staging, step(byStaging), func(f *Facts) { f.Pod = &podstep.Pod{UID: "pod", Adoptable: true} }), "Record Staging Staging 1 pod"},
		"staging pod of another client":   {in(staging, step(byStaging), func(f *Facts) { f.Pod = &podstep.Pod{UID: "pod"} }), "Record Staging Staging 1 pod result false"},
		"staging pod runs":                {in(staging, step(byStaging), pod()), "Record Staging Staging 1 pod"}, // sets the condition
		"staging pod does not run":        {in(staging, step(byStaging), pod(func(p *podstep.Pod) { p.Problem = "why" })), "Record Staging Staging 1 pod PodNotRunning"},
		"staging pod is ready":            {in(staging, step(byStaging), pod(isReady)), "Record Staged Staging 1 pod VolumeStaged"},
		"staging pod is done":             {in(staging, step(byStaging), pod(isDone)), "Record Staged Staging 1 pod VolumeStaged"},
		"staging pod of a device is done": {in(staging, step(byStaging), pod(isDone), block), "Record Staging Staging 1 pod"},
		"staging pod was done and failed": {in(staged, stagedBy, step(byStaging), pod(ended(true, "", report.Volume{}))), "Record Staged Staging 1 pod result false"},
		"staging pod has succeeded":       {in(staging, step(byStaging), pod(ended(true, "", directory))), "Record Staging Staging 1 pod result true"},
		"staging pod left no volume":      {in(staging, step(byStaging), pod(ended(true, "", report.Volume{}))), "Record Staging Staging 1 pod result false"},
		"staging pod left a device":       {in(staging, step(byStaging), pod(ended(true, "", report.Volume{Kind: report.BlockDevice}))), "Record Staging Staging 1 pod result false"},
		"staging pod timed out":           {in(staging, step(byStaging), pod(), func(f *Facts) { f.Now = now.Add(time.Hour) }), "Record Staging Staging 1 pod result false"},
		"staging pod was deleted":         {in(staging, step(byStaging), pod(), func(f *Facts) { f.Pod = nil }), "Record Staging Staging 1 pod result false"},
		"staging pod is removed":          {in(staging, step(byStaging), done(false, ""), pod()), "DeletePod"},
		"staging pod is released":         {in(staging, step(byStaging), done(false, ""), pod(func(p *podstep.Pod) { p.Over, p.DeletedAt = true, now })), "ReleasePod"},
		"staging has succeeded":           {in(staging, step(byStaging), done(true, "")), "Record Staged VolumeStaged"},
		"staging has failed":              {in(staging, step(byStaging), done(false, "no")), "Record Unstaging StagingFailed"},
		"staging, no pod uses the volume": {in(staging, step(byStaging), pod(), unused), "Record Unstaging Staging 1 pod NoPodOnNode"},
		"staging, not begun, deleted":     {in(staging, deleted), "Record Pending NotRequested"},
		"staging, deleted":                {in(staging, step(byStaging), pod(), deleted), "Record Unstaging Staging 1 pod NotRequested"},
		"staging, rebooted":               {in(staging, step(byStaging), pod(), rebooted), "Record Unstaging Staging 1 pod NodeRebooted"},
		"staging, rebooted, stale":        {in(staging, step(byStaging), pod(), rebooted, stale), "Read"},
		"staging cannot be evaluated":     {in(staging, func(f *Facts) { f.Evaluated = Evaluated{Problem: "no"} }), "Record Pending StagingFailed retry 1s"},
		"staging changes its namespace":   {in(staging, step(byStaging), func(f *Facts) { f.Evaluated.Namespace = "other" }), "Record Staging"},

		"staged":                        {in(staged, stagedBy), "Record Staged"}, // sets the condition
		"staged, pod ready":             {in(staged, stagedBy, step(byStaging), pod(isReady)), "Record Staged Staging 1 pod"},
		"staged, pod restarts":          {in(staged, stagedBy, step(byStaging), pod()), "Record Staged Staging 1 pod"},
		"staged, pod has failed":        {in(staged, stagedBy, step(byStaging), pod(ended(false, "died", directory))), "Record Staged Staging 1 pod result false"},
		"staged, pod has succeeded":     {in(staged, stagedBy, step(byStaging), done(true, "")), "Record Staged"},
		"staged, failure recorded":      {in(staged, stagedBy, step(byStaging), done(false, "died")), "Record Unstaging StagingFailed"},
		"staged, node has confirmed":    {in(staged, stagedBy, failures, func(f *Facts) { f.Staging.Spec.Volume = &stowage.StagedVolume{Attempt: 1} }), "Record Staged"},
		"staged, confirmed another one": {in(staged, stagedBy, failures, func(f *Facts) { f.Staging.Spec.Volume = &stowage.StagedVolume{Attempt: 0} }), "Record Staged failures 2"},
		"staged after failures":         {in(staging, step(byStaging), pod(isReady), failures), "Record Staged Staging 1 pod failures 2 VolumeStaged"},
		"staged, deleted":               {in(staged, stagedBy, step(byStaging), pod(isReady), deleted), "Record Unstaging Staging 1 pod NotRequested"},
		"staged, rebooted":              {in(staged, stagedBy, rebooted), "Record Unstaging NodeRebooted"},
		"staged, provisioner gone":      {in(staged, stagedBy, func(f *Facts) { f.Provisioner = nil }), "Record Staged"},
		"staged, no pod uses it":        {in(staged, stagedBy, unused), "Record Staged"},
		"staged, PersistentVolume gone": {in(staged, stagedBy, func(f *Facts) { f.PVs, f.Claim, f.Volume = nil, nil, nil }), "Record Staged"},

		"unstaging, staging pod runs":    {in(unstaging, stagedBy, step(byStaging), pod(isReady)), "Record Unstaging Staging 1 pod result false"},
		"unstaging, staging pod is gone": {in(unstaging, stagedBy, step(byStaging), done(false, "")), "Record Unstaging"},
		"unstaging pod is announced":     {in(unstaging, stagedBy), "Record Unstaging Unstaging 2"},
		"unstaging pod is created":       {in(unstaging, stagedBy, step(byUnstaging)), "CreatePod"},
		"unstaging without a pod":        {in(unstaging, stagedBy, func(f *Facts) { f.Evaluated.HasPod = false }), "Record Clearing"},
		"unstaging has failed":           {in(unstaging, stagedBy, step(byUnstaging), done(false, "busy")), "Record Unstaging UnstagingFailed retry 1s"},
		"unstaging has failed often":     {in(unstaging, stagedBy, step(byUnstaging), done(false, "busy"), func(f *Facts) { f.Staging.Status.UnstagingFailures = 9 }), "Record Unstaging UnstagingFailed retry 8s"},
		"unstaging, revision missing":    {in(unstaging, stagedBy, func(f *Facts) { f.Evaluated = Evaluated{Problem: "no revision"} }), "Record Unstaging UnstagingFailed retry 1s"},
		"unstaging has succeeded":        {in(unstaging, stagedBy, step(byUnstaging), done(true, "")), "Record Clearing"},
		"the node is to confirm":         {in(clearing, stagedBy), "Record Clearing NodeNotCleared (no event)"},
		"unstaging after a failure": {in(unstaging, stagedBy, step(byUnstaging), done(true, ""), func(f *Facts) {
			f.Staging.Status.Conditions = []metav1.Condition{{Type: stowage.ConditionStaged, Status: metav1.ConditionFalse, Reason: string(StagingFailed), Message: "full"}}
		}), "Record Clearing StagingFailed (no event)"},
		"the node has confirmed":            {in(clearing, stagedBy, func(f *Facts) { f.Staging.Spec.ClearedAttempt = 1 }), "Record Pending"},
		"the node has confirmed, failed":    {in(clearing, stagedBy, func(f *Facts) { f.Staging.Spec.ClearedAttempt, f.Staging.Status.Failures = 1, 3 }), "Record Pending retry 4s"},
		"the node has confirmed, deleted":   {in(clearing, stagedBy, deleted, func(f *Facts) { f.Staging.Spec.ClearedAttempt = 1 }), "Release"},
		"deleted before the node confirmed": {in(clearing, stagedBy, deleted), "Record Clearing NodeNotCleared (no event)"},

		"node gone":                      {in(staged, stagedBy, func(f *Facts) { f.Node = nil }), "Delete EndedWithoutUnstaging"},
		"node gone, pod there":           {in(staged, stagedBy, step(byStaging), pod(isReady), func(f *Facts) { f.Node = nil }), "DeletePod"},
		"node gone, pod deleted":         {in(staged, stagedBy, step(byStaging), pod(func(p *podstep.Pod) { p.DeletedAt = now }), func(f *Facts) { f.Node = nil }), "ReleasePod"},
		"node gone, deleted":             {in(unstaging, stagedBy, deleted, func(f *Facts) { f.Node = nil }), "Release"},
		"node gone, not known live":      {in(unstaging, stagedBy, deleted, stale, func(f *Facts) { f.Node = nil }), "Read"},
		"node out of service":            {in(staged, stagedBy, func(f *Facts) { f.Node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}} }), "Delete EndedWithoutUnstaging"},
		"node not ready":                 {in(staged, stagedBy, func(f *Facts) { f.Node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady}} }), "Record Staged"},
		"an administrator ends it":       {in(unstaging, deleted, func(f *Facts) { f.Staging.Annotations = map[string]string{wellknown.PavUnstagedAnnotation: "true"} }), "Release"},
		"a phase of a later version":     {in("Later"), "Record Later NotSupported"},
		"the annotation has another one": {in(pending, func(f *Facts) { f.Staging.Annotations = map[string]string{wellknown.PavUnstagedAnnotation: "no"} }), "Begin Staging r2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.facts.Staging.DeepCopy()
			got := Decide(tc.facts)
			if describe(got) != tc.want {
				t.Errorf("decided %s, want %s", describe(got), tc.want)
			}
			if diff := cmp.Diff(before, tc.facts.Staging); diff != "" {
				t.Errorf("Decide changed the PavStaging:\n%s", diff)
			}
			if wait, ok := got.(Wait); ok {
				if again := Decide(tc.facts); describe(again) != describe(wait) {
					t.Errorf("decided %s after %s", describe(again), describe(wait))
				}
			}
		})
	}
}

// What is refused is said in the condition Staged, once.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(*Facts)
		reason  Reason
		message string
	}{
		"no provisioner":               {func(f *Facts) { f.Provisioner = nil }, NotAccepted, "does not exist"},
		"a provisioner never accepted": {func(f *Facts) { f.Provisioner.Revision, f.Provisioner.Problem = "", "bad template" }, NotAccepted, "bad template"},
		"no volume":                    {func(f *Facts) { f.PVs = nil }, NotFound, `"h"`},
		"two volumes": {func(f *Facts) {
			f.PVs = append(f.PVs, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv2"}})
		}, HandleShared, "pv and pv2"},
		"a volume that is not bound":    {func(f *Facts) { f.PVs[0].Status.Phase = corev1.VolumeReleased }, NotBound, "not bound"},
		"the claim is another one":      {func(f *Facts) { f.Claim.UID = "x" }, NotBound, "not bound"},
		"the claim has another volume":  {func(f *Facts) { f.Claim.Spec.VolumeName = "x" }, NotBound, "not bound"},
		"the claim is gone":             {func(f *Facts) { f.Claim = nil }, NotBound, "not bound"},
		"a volume being deleted":        {func(f *Facts) { f.Volume.Status.Phase = stowage.PavVolumeDeleting }, NotBound, "must be Provisioned"},
		"static volumes not allowed":    {func(f *Facts) { f.Volume, f.Provisioner.Static = nil, false }, NotAccepted, "does not have Static"},
		"no pod uses it":                {unused, Unused, "no pod on node n1 uses claim ns/c"},
		"on another node":               {func(f *Facts) { f.StagedOn = "n2" }, StagedElsewhere, "node n2"},
		"a mount option":                {func(f *Facts) { f.PVs[0].Spec.MountOptions = []string{"x"} }, NotSupported, `"x"`},
		"a type of file system":         {func(f *Facts) { f.PVs[0].Spec.CSI.FSType = "ext4" }, NotSupported, "fsType"},
		"secrets":                       {func(f *Facts) { f.PVs[0].Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{} }, NotSupported, "Secrets"},
		"annotations that are too long": {func(f *Facts) { f.Claim.Annotations = map[string]string{"a": strings.Repeat("x", 500<<10)} }, NotSupported, "must have at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := in(stowage.PavStagingPending, tc.change)
			record, ok := Decide(f).(Record)
			if !ok || record.Event.Reason != tc.reason || !strings.Contains(record.Event.Message, tc.message) {
				t.Fatalf("decided %+v, want that it is recorded as %s", record, tc.reason)
			}
			condition := meta.FindStatusCondition(record.Status.Conditions, stowage.ConditionStaged)
			if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != string(tc.reason) || !strings.Contains(condition.Message, tc.message) {
				t.Errorf("condition %+v", condition)
			}
			f.Staging.Status = record.Status
			if wait, ok := Decide(f).(Wait); !ok || wait.For != f.Limits.BackoffLast {
				t.Errorf("then decided %s, want to wait", describe(Decide(f)))
			}
			f.Live = false
			if _, ok := Decide(f).(Read); !ok {
				t.Errorf("from informers decided %s, want to read", describe(Decide(f)))
			}
		})
	}
}

// While a volume cannot be unstaged, both conditions hold, and say why.
func TestConditions(t *testing.T) {
	t.Parallel()
	f := in(stowage.PavStagingUnstaging, stagedBy, step(stowage.PavStepUnstaging), done(false, "busy"))
	f.Staging.Status.Conditions = []metav1.Condition{{Type: stowage.ConditionStaged, Status: metav1.ConditionFalse, Reason: string(StagingFailed), Message: "died"}}
	record, ok := Decide(f).(Record)
	if !ok {
		t.Fatalf("decided %s", describe(Decide(f)))
	}
	got := map[string]string{}
	for _, c := range record.Status.Conditions {
		got[c.Type] = fmt.Sprintf("%s %s", c.Status, c.Reason)
	}
	want := map[string]string{stowage.ConditionStaged: "False StagingFailed", stowage.ConditionUnstageable: "False UnstagingFailed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if last := record.Status.LastError; last == nil || last.Step != stowage.PavStepUnstaging || !strings.Contains(last.Message, "busy") {
		t.Errorf("last error %+v", last)
	}
}

// A volume is unstaged by the revision that staged it, unless an administrator chooses the last one.
func TestRevisionOf(t *testing.T) {
	t.Parallel()
	latest := &stowage.PavVolume{Spec: stowage.PavVolumeSpec{UseRevision: stowage.UseRevisionLatest}}
	for name, tc := range map[string]struct {
		facts  *Facts
		volume *stowage.PavVolume
		want   string
	}{
		"staged":               {in(stowage.PavStagingStaged), nil, "r1"},
		"unstaging":            {in(stowage.PavStagingUnstaging), nil, "r1"},
		"staged, latest":       {in(stowage.PavStagingStaged), latest, "r1"},
		"unstaging, latest":    {in(stowage.PavStagingUnstaging), latest, "r2"},
		"unstaging, by itself": {in(stowage.PavStagingUnstaging, func(f *Facts) { f.Staging.Spec.UseRevision = stowage.UseRevisionLatest }), nil, "r2"},
		"announced before":     {in(stowage.PavStagingUnstaging, step(stowage.PavStepUnstaging)), latest, "r1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := RevisionOf(tc.facts.Staging, "r2", tc.volume); got != tc.want {
				t.Errorf("revision %s, want %s", got, tc.want)
			}
		})
	}
}
