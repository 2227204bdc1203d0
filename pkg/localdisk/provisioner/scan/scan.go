// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scan scans the discovery directories of a node: on events of the directories, on
// request, and periodically. It compares what a scan found with the scans before, and returns
// the paths that have changed.
package scan

import (
	"context"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	// Delay batches changes: a script that mounts ten disks causes one scan.
	Delay = 50 * time.Millisecond
	// On a node where pods come and go, something is mounted every moment. Scans take at most
	// share of the time in the long run; the first burst of scanning is not limited.
	share, burst = 0.1, 6 * time.Second
	// pauseMax limits how long share delays one scan.
	pauseMax = 2 * time.Second
	// watchRetry is the time between two attempts to watch the directories.
	watchRetry = 30 * time.Second
)

// Prober finds disks, and reports when to scan again.
type Prober interface {
	// Scan reads the folders. It reads no disk, and returns even if some do not answer.
	Scan(ctx context.Context, scan disk.Scan) disk.Scanned
	// Watch calls changed when the folders may have changed, until ctx ends. It may miss
	// changes: Scan is called periodically too. changed is safe for concurrent use.
	Watch(ctx context.Context, folders []disk.Folder, changed func()) error
	// SetTimeout changes the timeout of reading a folder or an entry of it.
	SetTimeout(timeout time.Duration)
}

// Provisioner is what the scanner scans for.
type Provisioner interface {
	// Folders returns the discovery directories, and the shortest time between two scans that
	// nothing requests.
	Folders() (folders Folders, period time.Duration)
	// Known returns the slots of volumes and records, which a scan looks for.
	Known() []disk.Known
	// Scanned stores what a scan that started at begin found. It returns whether the next scan
	// has to be soon, since a disk is missing or does not answer.
	Scanned(ctx context.Context, begin time.Time, folders Folders, known []disk.Known, scanned disk.Scanned) (soon bool)
}

// Folders are the discovery directories, by the name of their class.
type Folders []disk.Folder

// FoldersOf returns the discovery directories of a configuration.
func FoldersOf(config *provisioner.ProvisionerConfiguration) Folders {
	var all Folders
	for _, name := range slices.Sorted(maps.Keys(config.Classes)) {
		class := config.Classes[name]
		all = append(all, disk.Folder{
			Class: name, HostPath: class.HostDir, Path: class.MountDir, Names: class.NamePatterns(), Directories: class.DirectoryPatterns(), Mode: disk.Mode(class.VolumeMode),
		})
	}
	return all
}

// KeyOf returns the slot of a path; false if the path is in no discovery directory.
func (f Folders) KeyOf(hostPath string) (disk.Key, bool) {
	in, name := path.Dir(hostPath), path.Base(hostPath)
	for i := range f {
		if f[i].HostPath == in {
			return disk.Key{Class: f[i].Class, Name: name}, true
		}
	}
	return disk.Key{}, false
}

// Scanner scans the discovery directories. Its methods are safe for concurrent use.
type Scanner struct {
	prober      Prober
	provisioner Provisioner
	recheck     time.Duration
	requests    chan struct{} // each requests a scan
	rewatch     chan struct{} // each requests new watches
}

// New returns a scanner that Run and Watch start. recheck is the time between the scan that
// finds a disk missing or failing and the one that confirms it.
func New(prober Prober, p Provisioner, recheck time.Duration) *Scanner {
	return &Scanner{prober: prober, provisioner: p, recheck: recheck, requests: make(chan struct{}, 1), rewatch: make(chan struct{}, 1)}
}

// Request requests a scan.
func (s *Scanner) Request() { poke(s.requests) }

// Reconfigured requests a scan and watches of the present folders.
func (s *Scanner) Reconfigured() {
	poke(s.rewatch)
	poke(s.requests)
}

// poke sends a request, unless one is pending.
func poke(requests chan<- struct{}) {
	select {
	case requests <- struct{}{}:
	default:
	}
}

// Run scans on request, and periodically.
func (s *Scanner) Run(ctx context.Context) {
	budget := budget{left: burst, at: time.Now()}
	for {
		folders, pause := s.provisioner.Folders()
		known, begin := s.provisioner.Known(), time.Now()
		scanned := s.prober.Scan(ctx, disk.Scan{Folders: folders, Known: known})
		if ctx.Err() != nil {
			return
		}
		soon := s.provisioner.Scanned(ctx, begin, folders, known, scanned)
		next := budget.spend(begin, time.Now())
		pause = min(pause+rand.N(pause), decide.FaultScans*s.recheck) // most faults cause no event
		if soon {
			pause = s.recheck
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.requests:
			timer.Stop()
			select {
			case <-ctx.Done():
				return
			case <-time.After(max(Delay, time.Until(next))):
			}
		case <-timer.C:
		}
	}
}

// budget is how much time may still be spent on scans.
type budget struct {
	left time.Duration
	at   time.Time
}

// spend accounts for a scan, and returns when the next one may begin.
func (b *budget) spend(begin, end time.Time) time.Time {
	b.left = min(b.left+time.Duration(float64(end.Sub(b.at))*share), burst) - end.Sub(begin)
	b.at = end
	if b.left >= 0 {
		return end
	}
	wait := min(time.Duration(float64(-b.left)/share), pauseMax)
	b.left = max(b.left, -time.Duration(float64(pauseMax)*share))
	return end.Add(wait)
}

// Watch requests a scan whenever something in the directories may have changed.
func (s *Scanner) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() {
			folders, _ := s.provisioner.Folders()
			failed <- s.prober.Watch(watching, folders, s.Request)
		}()
		s.Request() // for what happened before the watch began
		var err error
		select {
		case <-ctx.Done():
		case <-s.rewatch:
		case err = <-failed:
			failed <- nil
		}
		cancel()
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to watch the discovery directories; scanning periodically", "retry", watchRetry)
			select {
			case <-ctx.Done():
			case <-time.After(watchRetry):
			}
		} else if err := <-failed; err != nil {
			klog.FromContext(ctx).V(4).Info("Watch of the discovery directories ended", "err", err)
		}
	}
}
