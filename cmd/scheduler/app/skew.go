// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	kubeversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

// skewFlag is the name of the flag that turns the check of checkVersionSkew into a warning.
const skewFlag = "allow-unsupported-version-skew"

// errVersionSkew is the cause of every error that reports a version that Kubernetes does not
// support together with this scheduler's.
var errVersionSkew = errors.New("unsupported version skew")

// serverVersionTimeout bounds one request for the API server's version.
const serverVersionTimeout = 5 * time.Second

// skewCheck compares the API server's version with this scheduler's.
type skewCheck struct {
	client rest.Interface
	// backoff is the delay between requests while the API server does not answer.
	backoff wait.Backoff
	// refuse is called at most once, with an error that wraps errVersionSkew, if the server
	// turns out to be older after enforce has returned.
	refuse func(error)
}

// newSkewCheck returns the check that stowage-scheduler makes when it starts.
func newSkewCheck(client rest.Interface, refuse func(error)) skewCheck {
	return skewCheck{client, wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 6, Cap: 30 * time.Second}, refuse}
}

// enforce returns an error that wraps errVersionSkew if the API server is older than this
// scheduler. If the server does not answer, it starts a goroutine that asks again until it
// does; done is closed when the goroutine has ended, which it does with ctx at the latest. A
// scheduler that starts during an outage of the API server thus serves its health checks and
// waits, as kube-scheduler does.
func (c skewCheck) enforce(ctx context.Context) (done <-chan struct{}, err error) {
	ended := make(chan struct{})
	known, err := c.ask(ctx)
	if known {
		close(ended)
		return ended, err
	}
	klog.FromContext(ctx).Info("API server does not report its version; checking the version skew when it does", "err", err)
	go func() {
		defer close(ended)
		// The context's end is the only error.
		_ = c.backoff.DelayFunc().Until(ctx, false, true, func(ctx context.Context) (bool, error) {
			known, err := c.ask(ctx)
			if known && err != nil {
				c.refuse(err)
			}
			return known, nil
		})
	}()
	return ended, nil
}

// ask reads the API server's version and applies checkVersionSkew. known is false if the
// server did not answer; err is then the reason.
func (c skewCheck) ask(ctx context.Context) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, serverVersionTimeout)
	defer cancel()
	body, err := c.client.Get().AbsPath("/version").Do(ctx).Raw()
	logger := klog.FromContext(ctx)
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		logger.Error(err, "Not allowed to read the API server's version; the version skew is not checked")
		return true, nil
	}
	if err != nil {
		return false, err
	}
	var server version.Info
	if err := json.Unmarshal(body, &server); err != nil {
		return false, fmt.Errorf("decode the API server's version: %w", err)
	}
	warning, err := checkVersionSkew(kubeversion.DefaultKubeBinaryVersion, server.GitVersion)
	if warning != "" {
		logger.Info("Version skew", "warning", warning)
	}
	return true, err
}

// checkVersionSkew applies the rule of Kubernetes for kube-scheduler
// (https://kubernetes.io/releases/version-skew-policy/): it must not be newer than the API
// server, and may be one minor version older. scheduler is a minor version ("1.37"), server
// a version as the API server reports it, with any suffix of a distribution. A newer
// scheduler is an error that wraps errVersionSkew; one that is more than one minor version
// older, and a server version that cannot be parsed, are warnings.
func checkVersionSkew(scheduler, server string) (warning string, err error) {
	own, err := utilversion.ParseGeneric(scheduler)
	if err != nil {
		return "", fmt.Errorf("parse this scheduler's version %q: %w", scheduler, err)
	}
	other, err := utilversion.ParseGeneric(server)
	if err != nil {
		return fmt.Sprintf("the API server's version %q cannot be parsed, so the version skew is not checked", server), nil
	}
	const rule = "a scheduler must not be newer than the API server, and may be one minor version older"
	newer := own.Major() > other.Major() || own.Major() == other.Major() && own.Minor() > other.Minor()
	switch {
	case newer:
		return "", fmt.Errorf("%w: this scheduler is built from Kubernetes %s and the API server is %s; %s: run the build for Kubernetes %d.%d, "+
			"upgrade the API server first, or set --%s", errVersionSkew, scheduler, server, rule, other.Major(), other.Minor(), skewFlag)
	case own.Major() == other.Major() && own.Minor()+1 < other.Minor():
		return fmt.Sprintf("this scheduler is built from Kubernetes %s and the API server is %s; %s", scheduler, server, rule), nil
	}
	return "", nil
}
