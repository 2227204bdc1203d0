// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/perf/benchfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/localdisk/provisioner/inventory"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/source"
	"stowage.dev/stowage/test/provisioners"
)

const (
	// disksPerNode are listed on each node.
	disksPerNode = 24
	// scanEvery is how often the listers of all nodes look for changes while nothing changes, and listed for how long.
	scanEvery, listed = 10 * time.Second, time.Minute
	// Each provisioner sends so many requests about LocalDisks (cmd/provisioner/app).
	listerQPS, listerBurst = 1, 2
)

// listers are those of the provisioners of many nodes, with simulated disks.
type listers struct {
	config    *rest.Config
	nodes     int
	transport counting

	stop    context.CancelFunc
	running sync.WaitGroup
	all     []*inventory.Lister
	slots   []slots // by node; a restart keeps them
}

// listing measures what the LocalDisks of many nodes cost the API server, and stowage-controller, which does not read them.
func (b *bench) listing(ctx context.Context, r *parts.Run) (measured figures.Set, err error) {
	binary, err := cluster.BuildCommand(ctx, cluster.BuildOptions{Progress: os.Stderr}, "stowage.dev/stowage/cmd/controller")
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Config{Binaries: b.binaries, NoKwok: true, ControllerManager: cluster.ControllerManagerConfig{Disabled: true}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := provisioners.Apply(ctx, c); err != nil { // with the kind
		return nil, err
	}
	config := filepath.Join(c.Folder(), "controller.yaml")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	controller, err := c.StartCommand("controller", binary, []string{"--config=" + config, "--kubeconfig=" + c.Kubeconfig()}, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, controller.Kill()) }()
	s := &listers{config: c.RESTConfig(), nodes: r.Number("nodes")}
	s.slots = make([]slots, s.nodes)
	defer s.end()
	s.config.Wrap(s.transport.wrap)
	parts.Progress("%d nodes with %d disks", s.nodes, disksPerNode)
	return parts.Rounds(1, []string{"none", "start", "rest", "restart"}, func(_ int, phase string) (*benchfmt.Result, error) {
		before := s.transport.values()
		used, seconds, err := source.During(c.APIServer().Process(), func() error { return s.run(ctx, phase) })
		if err != nil {
			return nil, err
		}
		idle, err := source.Used(controller)
		values := []figures.Value{
			{Value: float64(s.nodes), Unit: "nodes"}, {Value: seconds, Unit: "sec"}, {Value: used.CPU, Unit: "cpu-sec"}, {Value: float64(used.RSS), Unit: "rss-B"},
			{Value: float64(idle.RSS), Unit: "controller-rss-B"},
		}
		for i, after := range s.transport.values() {
			values = append(values, figures.Value{Value: after.Value - before[i].Value, Unit: after.Unit})
		}
		return figures.Line("Listing/phase="+phase, 1, values...), err
	})
}

// run is a phase.
func (s *listers) run(ctx context.Context, phase string) error {
	all := int64(s.nodes * disksPerNode)
	switch phase {
	case "start":
		if err := s.begin(ctx); err != nil {
			return err
		}
		return s.transport.wait(ctx, "the status of all disks", func() bool { return s.transport.updated.Load() >= all })
	case "restart":
		s.end()
		want := s.transport.read.Load() + all
		if err := s.begin(ctx); err != nil {
			return err
		}
		return s.transport.wait(ctx, "the reads of all nodes", func() bool { return s.transport.read.Load() >= want })
	}
	for range listed / scanEvery {
		for _, l := range s.all {
			l.Scanned(disk.Scanned{})
		}
		if err := parts.Pass(ctx, scanEvery); err != nil {
			return err
		}
	}
	return nil
}

// begin starts the listers of all nodes.
func (s *listers) begin(ctx context.Context) error {
	ctx, s.stop = context.WithCancel(ctx)
	s.all = nil
	for n := range s.nodes {
		config := rest.CopyConfig(s.config)
		config.QPS, config.Burst = listerQPS, listerBurst
		client, err := diskreports.NewDiskClient(config)
		if err != nil {
			return err
		}
		l := inventory.New(inventory.Config{
			Node: nodeName(n), KubeletDir: "/var/lib/kubelet", Devices: simulated(n), Disks: client, Slots: &s.slots[n], Enabled: func() bool { return true },
			Owner: func(context.Context) (metav1.OwnerReference, error) {
				return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: nodeName(n), UID: "00000000-0000-0000-0000-000000000000"}, nil
			},
		})
		l.Scanned(disk.Scanned{})
		s.all = append(s.all, l)
		s.running.Go(func() { l.Run(ctx) })
	}
	return nil
}

// end stops the listers.
func (s *listers) end() {
	if s.stop != nil {
		s.stop()
	}
	s.running.Wait()
}

// slots remembers which slots of a node may be in use.
type slots struct{ atomic.Int64 }

// DiskSlots returns the number.
func (s *slots) DiskSlots() int { return int(s.Load()) }

// PutDiskSlots replaces the number.
func (s *slots) PutDiskSlots(number int) error {
	s.Store(int64(number))
	return nil
}

// simulated are the disks of a node, which are blank.
type simulated int

// BlockDevices returns the same disks each time.
func (n simulated) BlockDevices() ([]disk.BlockDevice, error) {
	var all []disk.BlockDevice
	for i := range disksPerNode {
		serial := int(n)*disksPerNode + i
		all = append(all, disk.BlockDevice{
			Path: fmt.Sprintf("/dev/nvme%dn1", i), Number: fmt.Sprintf("259:%d", i), Identity: disk.Identity(fmt.Sprintf("wwn:eui.%032x", serial)),
			Transport: disk.NVMe, Bytes: 3840755982336, Model: "SAMSUNG MZQL23T8HCLS-00A07", Serial: fmt.Sprintf("S64HNE0R%06d", serial),
		})
	}
	return all, nil
}

// ReadContent finds nothing.
func (simulated) ReadContent(context.Context, disk.BlockDevice) disk.Superblock {
	return disk.Superblock{}
}

// counting counts the requests of all listers, and the bytes of their bodies.
type counting struct {
	await.Changes
	read, created, updated, failed, sent, received atomic.Int64
}

func (c *counting) wait(ctx context.Context, what string, is func() bool) error {
	return c.Wait(ctx, 0, what, is)
}

func (c *counting) values() []figures.Value {
	var all []figures.Value
	for _, v := range []struct {
		n    *atomic.Int64
		unit string
	}{{&c.read, "gets"}, {&c.created, "creates"}, {&c.updated, "updates"}, {&c.failed, "failed"}, {&c.sent, "sent-B"}, {&c.received, "received-B"}} {
		all = append(all, figures.Value{Value: float64(v.n.Load()), Unit: v.unit})
	}
	return all
}

func (c *counting) wrap(next http.RoundTripper) http.RoundTripper { return &countingTransport{c, next} }

type countingTransport struct {
	*counting
	next http.RoundTripper
}

// RoundTrip sends a request, which counts when its answer was read.
func (t *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	t.sent.Add(max(request.ContentLength, 0))
	count := map[string]*atomic.Int64{http.MethodGet: &t.read, http.MethodPost: &t.created, http.MethodPut: &t.updated}[request.Method]
	response, err := t.next.RoundTrip(request)
	if err != nil {
		t.failed.Add(1)
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		count = &t.failed
	}
	response.Body = &countingBody{ReadCloser: response.Body, of: t.counting, count: count}
	return response, nil
}

// countingBody counts what is read: long answers have no Content-Length.
type countingBody struct {
	io.ReadCloser
	of    *counting
	count *atomic.Int64 // the kind of the request
}

func (b *countingBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.of.received.Add(int64(n))
	return n, err
}

func (b *countingBody) Close() error {
	b.count.Add(1)
	b.of.Notify()
	return b.ReadCloser.Close()
}
