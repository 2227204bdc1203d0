// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package frame

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"stowage.dev/stowage/test/cluster/realnode"
)

// Site is a cluster that some tests of a package share. The first of them starts it; Main stops
// it after the last test. Safe for concurrent use.
type Site struct {
	options func() (Options, error)

	once    sync.Once
	cluster *realnode.Cluster
	err     error
}

// sites are those that were made, which are package variables of tests.
var sites []*Site

// NewSite makes a Site. options are called when its cluster is started. It must be called for
// package variables, so that Main can stop the cluster.
func NewSite(options func() (Options, error)) *Site {
	s := &Site{options: options}
	sites = append(sites, s)
	return s
}

// New returns an Env on the site's cluster.
func (s *Site) New(t testing.TB) *Env {
	t.Helper()
	s.once.Do(s.start)
	if s.err != nil {
		t.Fatal("this site did not start: ", s.err)
	}
	return newEnv(t, s.cluster)
}

func (s *Site) start() {
	o, err := s.options()
	if err == nil {
		s.cluster, err = start(o)
	}
	s.err = err
}

// stopSites stops the clusters of all sites. With keep, their folders stay.
func stopSites(keep bool) error {
	var errs []error
	for _, s := range sites {
		if s.cluster == nil {
			continue
		}
		if keep {
			s.cluster.KeepFolder()
			fmt.Fprintln(os.Stderr, "The logs are in", s.cluster.Folder())
		}
		errs = append(errs, s.cluster.Stop())
	}
	return errors.Join(errs...)
}
