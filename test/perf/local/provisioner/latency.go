// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/perf/figures"
)

// Latencies measures how long it takes until a disk that appears is an Available
// volume, and until a volume that is Released is Available again. There are count
// disks of each kind; one thing happens at a time.
func (s *Setup) Latencies(ctx context.Context, count int) (measured figures.Set, err error) {
	m, err := s.newMachine(ctx, "latency")
	if err != nil {
		return nil, err
	}
	defer m.explain(&err)
	if err := m.start(ctx); err != nil {
		return nil, err
	}
	// The first volume shows that the provisioner runs and the policies are in force.
	if err := m.appear(ctx, tmpfsClass, "first"); err != nil {
		return nil, err
	}
	if _, err := s.volumes.available(ctx, m.slot(tmpfsClass, "first"), ""); err != nil {
		return nil, err
	}
	appearing, err := m.appearing(ctx, count)
	if err != nil {
		return nil, err
	}
	releasing, err := m.releasing(ctx, count)
	return append(appearing, releasing...), err
}

// explain adds the provisioner's log to an error.
func (m *machine) explain(err *error) {
	if *err != nil && m.provisioner != nil {
		*err = fmt.Errorf("%w%s", *err, m.provisioner.LogTail())
	}
}

// times are seconds by kind of disk.
type times map[string][]float64

// lines are the results of all kinds that were measured.
func (t times) lines(name string) figures.Set {
	var set figures.Set
	for _, kind := range append(slices.Clone(classes), noProvisioner) {
		if len(t[kind]) > 0 {
			set = append(set, figures.Line(name+"/disk="+kind, len(t[kind]), figures.Times(t[kind])...))
		}
	}
	return set
}

// noProvisioner is no kind of disk: a client creates a volume.
const noProvisioner = "none"

func (m *machine) appearing(ctx context.Context, count int) (figures.Set, error) {
	t := times{}
	for i := range count {
		if i%10 == 0 {
			m.setup.Progress("disks appear, %d of %d done", i, count)
		}
		for _, kind := range classes {
			took, err := m.oneAppears(ctx, kind, fmt.Sprintf("disk-%d", i))
			if err != nil {
				return nil, err
			}
			t[kind] = append(t[kind], took.Seconds())
		}
		took, err := m.oneCreated(ctx, fmt.Sprintf("bare-%d", i))
		if err != nil {
			return nil, err
		}
		t[noProvisioner] = append(t[noProvisioner], took.Seconds())
	}
	return t.lines("Appear"), nil
}

// oneAppears has a disk appear. The step itself is in the time.
func (m *machine) oneAppears(ctx context.Context, kind, name string) (time.Duration, error) {
	appear, err := m.prepare(ctx, kind, name)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := appear(); err != nil {
		return 0, err
	}
	seen, err := m.setup.volumes.available(ctx, m.slot(kind, name), "")
	if err != nil {
		return 0, err
	}
	return seen.since[corev1.VolumeAvailable].Sub(begin), nil
}

// oneCreated is the least that any provisioner needs: one request, and the
// PersistentVolume controller's answer to it.
func (m *machine) oneCreated(ctx context.Context, name string) (time.Duration, error) {
	volume := builders.MakePV(name).Class("other").Hostname("other").Obj()
	path := "/nowhere/" + name
	volume.Spec.Local.Path = path
	begin := time.Now()
	if _, err := m.setup.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	seen, err := m.setup.volumes.available(ctx, path, "")
	if err != nil {
		return 0, err
	}
	return seen.since[corev1.VolumeAvailable].Sub(begin), nil
}

func (m *machine) releasing(ctx context.Context, count int) (figures.Set, error) {
	t := times{}
	for i := range count {
		if i%10 == 0 {
			m.setup.Progress("volumes are released, %d of %d done", i, count)
		}
		for _, kind := range classes {
			claim, bound, err := m.setup.claim(ctx, m, kind)
			if err != nil {
				return nil, err
			}
			released, next, err := m.setup.release(ctx, claim, bound)
			if err != nil {
				return nil, err
			}
			t[kind] = append(t[kind], next.since[corev1.VolumeAvailable].Sub(released.since[corev1.VolumeReleased]).Seconds())
		}
	}
	return t.lines("Release"), nil
}
