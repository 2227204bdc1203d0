// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskfaults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/orphancleans/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// relieve unblocks disks whose volume was deleted by force, until ctx ends: it empties those
// that are retained, and allows the cleaning of those that wait for it.
func (w *harness) relieve(ctx context.Context) {
	reports, err := diskreports.NewClient(w.Env.Cluster.RESTConfig())
	if err != nil {
		w.violated("administrator: %v", err)
		return
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		report, err := reports.Get(ctx, w.Name, metav1.GetOptions{})
		if err != nil {
			continue // the provisioner has not written it yet
		}
		var granted []rules.Grant
		for i := range report.Status.Entries {
			e := &report.Status.Entries[i]
			switch disk.Reason(e.Reason) {
			case disk.OrphanCleanWaits:
				granted = append(granted, rules.Grant{Data: e.Acknowledgement})
			case disk.VolumeVanished:
				w.empty(e)
			}
		}
		if text := rules.FormatGrants(granted); text != "" && text != report.Annotations[wellknown.CleanOrphansAnnotation] {
			h := hand{harness: w}
			h.check(ctx, "allow to clean the disk of", w.AnnotateReport(ctx, wellknown.CleanOrphansAnnotation, text))
		}
	}
}

// empty removes the data of a deleted volume from its disk, unless the report is of
// an earlier one.
func (w *harness) empty(e *stowage.Entry) {
	for _, t := range w.disks {
		if !t.has(e.Path) {
			continue
		}
		t.acting.Lock()
		uid := e.Acknowledgement[strings.LastIndexByte(e.Acknowledgement, '/')+1:]
		if e.Volume == "" && (t.owned == "" || string(t.owned) == uid) {
			if err := t.medium.empty(); err != nil {
				w.violated("%s: the administrator cannot empty the disk: %v", t, err)
			}
			w.logf("    the administrator emptied %s, of volume UID %s", t, uid)
		}
		t.acting.Unlock()
	}
}

// hand acts as an administrator: it deletes volumes, removes their finalizers, or both.
type hand struct {
	harness *harness
	random  *rand.Rand
}

// meddle does something to volumes at random moments, until ctx ends.
func (h *hand) meddle(ctx context.Context) {
	for {
		timer := time.NewTimer(200*time.Millisecond + time.Duration(h.random.Int64N(int64(time.Second)))) // not a deadline: a pause
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			h.once(ctx)
		}
	}
}

// once changes one volume or none.
func (h *hand) once(ctx context.Context) {
	list, err := h.harness.Env.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{LabelSelector: localpv.Selector(h.harness.Name)})
	if err != nil && ctx.Err() == nil {
		h.harness.violated("administrator: list volumes: %v", err)
	}
	if err != nil || len(list.Items) == 0 {
		return
	}
	v := &list.Items[h.random.IntN(len(list.Items))]
	for _, t := range h.harness.disks {
		if !t.has(localpv.PathOf(v)) {
			continue
		}
		t.acting.Lock()
		defer t.acting.Unlock() //nolint:gocritic // all of them together
	}
	what := h.random.IntN(6)
	if what < 3 {
		h.delete(ctx, v)
	}
	if what == 2 || what == 3 {
		h.tear(ctx, v)
	}
	if what < 4 {
		h.harness.logf("    the administrator %s volume %s of %s (%s)",
			[]string{"deleted", "deleted", "deleted and tore off", "took the finalizers off"}[what], v.Name, localpv.PathOf(v), v.Status.Phase)
	}
}

// delete deletes a volume, and records it first.
func (h *hand) delete(ctx context.Context, v *corev1.PersistentVolume) {
	h.harness.mu.Lock()
	h.harness.deleted[v.UID] = true
	h.harness.mu.Unlock()
	err := h.harness.Env.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(v.UID))})
	h.check(ctx, "delete", err)
}

// tear removes the finalizers, and records it first.
func (h *hand) tear(ctx context.Context, v *corev1.PersistentVolume) {
	h.harness.mu.Lock()
	h.harness.stripped[v.UID] = true
	h.harness.mu.Unlock()
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"finalizers":null}}`, v.UID)
	_, err := h.harness.Env.Client.CoreV1().PersistentVolumes().Patch(ctx, v.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	h.check(ctx, "take the finalizers off", err)
}

func (h *hand) check(ctx context.Context, what string, err error) {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		h.harness.violated("administrator: %s a volume: %v", what, err)
	}
}
