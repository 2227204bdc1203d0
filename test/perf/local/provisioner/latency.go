// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/perf/local/figures"
)

// titles of the kinds of disks.
var titles = map[string]string{
	tmpfsClass: "tmpfs, mounted",
	ext4Class:  "ext4, mounted",
	blockClass: "block device, linked",
}

// Latencies measures how long it takes until a disk that appears is an Available
// volume, and until a volume that is Released is Available again. There are count
// disks of each kind; one thing happens at a time.
func (s *Site) Latencies(ctx context.Context, count int) (appearing, releasing *figures.Latencies, err error) {
	m, err := s.newMachine(ctx, "latency")
	if err != nil {
		return nil, nil, err
	}
	defer m.explain(&err)
	if err := m.start(ctx); err != nil {
		return nil, nil, err
	}
	// The first volume shows that the provisioner runs and the policies are in force.
	if err := m.appear(ctx, tmpfsClass, "first"); err != nil {
		return nil, nil, err
	}
	if _, err := s.volumes.available(ctx, m.slot(tmpfsClass, "first"), ""); err != nil {
		return nil, nil, err
	}
	if appearing, err = m.appearing(ctx, count); err != nil {
		return nil, nil, err
	}
	releasing, err = m.releasing(ctx, count)
	return appearing, releasing, err
}

// explain adds the provisioner's log to an error.
func (m *machine) explain(err *error) {
	if *err != nil {
		*err = fmt.Errorf("%w\nthe provisioner's log ends:\n%s", *err, m.logTail())
	}
}

func (m *machine) appearing(ctx context.Context, count int) (*figures.Latencies, error) {
	series := map[string]*figures.Series{}
	bare := &figures.Series{Name: "no provisioner: a client creates a volume", Bare: true}
	for i := range count {
		if i%10 == 0 {
			m.site.Progress("disks appear, %d of %d done", i, count)
		}
		for _, kind := range classes {
			took, err := m.oneAppears(ctx, kind, fmt.Sprintf("disk-%d", i))
			if err != nil {
				return nil, err
			}
			add(series, kind, took)
		}
		took, err := m.oneCreated(ctx, fmt.Sprintf("bare-%d", i))
		if err != nil {
			return nil, err
		}
		bare.Millis = append(bare.Millis, millis(took))
	}
	return collect(series, bare), nil
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
	seen, err := m.site.volumes.available(ctx, m.slot(kind, name), "")
	if err != nil {
		return 0, err
	}
	return seen.since[corev1.VolumeAvailable].Sub(begin), nil
}

// oneCreated is the least that any provisioner needs: one request, and the
// PersistentVolume controller's answer to it.
func (m *machine) oneCreated(ctx context.Context, name string) (time.Duration, error) {
	volume := builders.MakePV(name).Class("nobody").Hostname("nobody").Obj()
	path := "/nowhere/" + name
	volume.Spec.Local.Path = path
	begin := time.Now()
	if _, err := m.site.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	seen, err := m.site.volumes.available(ctx, path, "")
	if err != nil {
		return 0, err
	}
	return seen.since[corev1.VolumeAvailable].Sub(begin), nil
}

func (m *machine) releasing(ctx context.Context, count int) (*figures.Latencies, error) {
	series := map[string]*figures.Series{}
	for i := range count {
		if i%10 == 0 {
			m.site.Progress("volumes are released, %d of %d done", i, count)
		}
		for _, kind := range classes {
			claim, bound, err := m.site.claim(ctx, m, kind)
			if err != nil {
				return nil, err
			}
			released, next, err := m.site.release(ctx, claim, bound)
			if err != nil {
				return nil, err
			}
			add(series, kind, next.since[corev1.VolumeAvailable].Sub(released.since[corev1.VolumeReleased]))
		}
	}
	return collect(series), nil
}

func add(series map[string]*figures.Series, kind string, took time.Duration) {
	if series[kind] == nil {
		series[kind] = &figures.Series{Name: titles[kind]}
	}
	series[kind].Millis = append(series[kind].Millis, millis(took))
}

func collect(series map[string]*figures.Series, more ...*figures.Series) *figures.Latencies {
	all := &figures.Latencies{}
	for _, kind := range classes {
		all.Series = append(all.Series, *series[kind])
	}
	for _, s := range more {
		all.Series = append(all.Series, *s)
	}
	return all
}

// millis are milliseconds, to the tenth.
func millis(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}
