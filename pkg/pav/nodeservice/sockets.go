// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeservice

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"stowage.dev/stowage/pkg/metrics"
)

// sockets are those of a driver.
type sockets struct{ driver, registration string }

// socketsOf returns the paths of the sockets of a driver. They have a hash of the name: the names of
// drivers have up to 63 characters, the path of a socket at most 107.
func socketsOf(kubeletDir, driver string) sockets {
	hash := sha256.Sum256([]byte(driver))
	name := "stowage-pav-" + hex.EncodeToString(hash[:8])
	return sockets{
		driver:       filepath.Join(kubeletDir, "plugins/stowage-pav", name+".sock"),
		registration: filepath.Join(registryOf(kubeletDir), name+"-reg.sock"),
	}
}

func (s sockets) exist() bool {
	_, err := os.Lstat(s.registration)
	return err == nil
}

// remove has kubelet forget the driver.
func (s sockets) remove() error {
	var errs []error
	for _, path := range []string{s.registration, s.driver} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove a socket: %w", err))
		}
	}
	return errors.Join(errs...)
}

// listen replaces a socket, and keeps it when the listener is closed: while the service is restarted,
// kubelet does not forget the driver.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("create the directory of a socket: %w", err)
	}
	unnamed := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)) // kubelet ignores names with a dot
	if err := os.Remove(unnamed); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove a socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: unnamed, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on a socket: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(unnamed, 0o600), os.Rename(unnamed, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("name a socket: %w", err), listener.Close())
	}
	return listener, nil
}

// drivers are those that are served. The zero value serves none.
type drivers struct {
	mu      sync.Mutex
	stops   map[string]func()
	failed  map[string]bool // kubelet has refused them
	running sync.WaitGroup
}

// serve serves a driver, if it is not served. A driver that kubelet has refused is registered again.
func (d *drivers) serve(ctx context.Context, service *Service, driver string, at sockets) error {
	d.mu.Lock()
	served, failed := d.stops[driver] != nil, d.failed[driver]
	d.mu.Unlock()
	if served && !failed {
		return nil
	}
	d.remove(driver)
	node := &server{service: service, driver: driver}
	own := grpc.NewServer(grpc.UnaryInterceptor(measure))
	csi.RegisterIdentityServer(own, node)
	csi.RegisterNodeServer(own, node)
	register := grpc.NewServer()
	registration.RegisterRegistrationServer(register, &registrar{driver: driver, endpoint: at.driver, refused: func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.failed[driver] = true
		service.driverKeys.AddRateLimited(driver)
	}})
	listener, err := listen(at.driver)
	if err != nil {
		return err
	}
	registry, err := listen(at.registration) // last: kubelet calls the driver at once
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stops == nil {
		d.stops, d.failed = map[string]func(){}, map[string]bool{}
	}
	delete(d.failed, driver)
	d.stops[driver] = func() { register.Stop(); own.Stop() }
	metrics.SetCSIDrivers(len(d.stops))
	for server, on := range map[*grpc.Server]net.Listener{own: listener, register: registry} {
		d.running.Go(func() {
			if err := server.Serve(on); err != nil {
				klog.FromContext(ctx).Error(err, "Stopped to serve a driver", "driver", driver)
			}
		})
	}
	klog.FromContext(ctx).Info("Serving a driver", "driver", driver, "socket", at.driver)
	return nil
}

// remove stops to serve a driver.
func (d *drivers) remove(driver string) {
	d.mu.Lock()
	stop := d.stops[driver]
	delete(d.stops, driver)
	metrics.SetCSIDrivers(len(d.stops))
	d.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// measure is an interceptor that records how long a call of kubelet takes.
func measure(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	begun := time.Now()
	response, err := handle(ctx, request)
	metrics.ObserveCSICall(filepath.Base(info.FullMethod), status.Code(err).String(), time.Since(begun))
	return response, err
}

// stop stops to serve all drivers, and waits for their goroutines.
func (d *drivers) stop() {
	d.mu.Lock()
	stops := d.stops
	d.stops = nil
	d.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	d.running.Wait()
}

// registrar answers kubelet's plugin watcher.
type registrar struct {
	registration.UnimplementedRegistrationServer
	driver, endpoint string
	refused          func()
}

// GetInfo implements registration.RegistrationServer.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: r.driver, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus implements registration.RegistrationServer.
func (r *registrar) NotifyRegistrationStatus(ctx context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	metrics.CountCSIRegistration(s.PluginRegistered)
	if !s.PluginRegistered {
		klog.FromContext(ctx).Info("Kubelet refused a driver; registering it again", "driver", r.driver, "reason", s.Error)
		r.refused()
	}
	return &registration.RegistrationStatusResponse{}, nil
}
