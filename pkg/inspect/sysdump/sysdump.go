// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package sysdump

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// Config is what a dump has.
type Config struct {
	// Connection is that to the API server, and Namespace the one that is read if the user may not list all.
	Connection *rest.Config
	Namespace  string
	// Folder is the top of the archive.
	Folder string
	// Queries are the objects, which Redactor changes.
	Queries  []snapshot.Query
	Redactor Redactor
	// Pods are those of Stowage, whose logs and metrics are dumped.
	Pods []*corev1.Pod
	// Files are further files by name.
	Files map[string][]byte
	// LogBytes is how many bytes of each log are kept, the last ones.
	LogBytes int64
	// Progress reports what is read. It is called from one goroutine at a time.
	Progress func(text string)
}

const (
	// parallel is how many logs and metrics are read at a time. Each is in memory until it is written.
	parallel = 4
	// requestTimeout bounds one log or page of metrics.
	requestTimeout = 30 * time.Second
	// maxMetrics is how large the metrics of a pod can be.
	maxMetrics = 16 << 20
	// podsPerLine is how many pods are read between two lines of progress.
	podsPerLine = 100
)

// dump is a dump in progress.
type dump struct {
	Config
	client kubernetes.Interface

	mu     sync.Mutex // of the following, and of calls of Progress
	to     *tar.Writer
	errors []string
	done   int
}

// Write writes a dump as tar.gz, and returns what could not be read, which errors.txt in it has, too. The error is
// of writing, of the context, or of an API server that does not answer.
func Write(ctx context.Context, to io.Writer, c Config) (missing []string, err error) {
	buffered := bufio.NewWriter(to)
	zipped := gzip.NewWriter(buffered)
	d := &dump{Config: c, to: tar.NewWriter(zipped)}
	connection := rest.CopyConfig(c.Connection)
	connection.QPS = -1 // a dump is read once, parallel requests at a time
	if d.client, err = kubernetes.NewForConfig(connection); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := d.write(ctx); err != nil {
		return nil, err
	}
	for _, closer := range []func() error{d.to.Close, zipped.Close, buffered.Flush} {
		if err := closer(); err != nil {
			return nil, fmt.Errorf("write the archive: %w", err)
		}
	}
	return d.errors, nil
}

// write writes all files.
func (d *dump) write(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(d.Files)) {
		if err := d.file(name, d.Files[name]); err != nil {
			return err
		}
	}
	kinds := 0
	objects := &snapshot.Archiver{
		Reader: snapshot.Reader{Config: d.Connection, Namespace: d.Namespace},
		To:     d.to, Folder: d.Folder, Change: d.Redactor.Redact, Progress: func(string) { kinds++ },
	}
	d.Progress("reading objects")
	if err := objects.Write(ctx, d.Queries...); err != nil {
		return err
	}
	for _, gap := range objects.Gaps() {
		d.errors = append(d.errors, fmt.Sprintf("list %s: %s", gap, gap.Reason))
	}
	d.Progress(fmt.Sprintf("read objects of %s, reading logs and metrics of %s", format.Count(kinds, "kind"), format.Count(len(d.Pods), "pod")))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, pod := range d.Pods {
		group.Go(func() error { return d.pod(ctx, pod) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	slices.Sort(d.errors)
	return d.file("errors.txt", []byte(strings.Join(append(d.errors, ""), "\n")))
}

// file adds a file to the archive. Safe for concurrent use.
func (d *dump) file(name string, content []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return snapshot.WriteFile(d.to, path.Join(d.Folder, name), content)
}

// failed records that something could not be read.
func (d *dump) failed(what string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errors = append(d.errors, what+": "+strings.Join(strings.Fields(err.Error()), " "))
}

// pod writes the logs and metrics of a pod.
func (d *dump) pod(ctx context.Context, pod *corev1.Pod) error {
	at := pod.Namespace + "/" + pod.Name
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if err := d.log(ctx, pod, c.Name, false); err != nil {
			return err
		}
		restarted := slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name && s.RestartCount > 0 })
		if restarted {
			if err := d.log(ctx, pod, c.Name, true); err != nil {
				return err
			}
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		scheme, port := metricsPort(c)
		if port == "" || pod.Status.PodIP == "" {
			continue
		}
		text, err := d.read(ctx, maxMetrics, func(ctx context.Context) (io.ReadCloser, error) {
			return d.client.CoreV1().Pods(pod.Namespace).ProxyGet(scheme, pod.Name, port, "metrics", nil).Stream(ctx)
		})
		if err != nil {
			// A scheduler, and any part with --secure-metrics, requires credentials, which the API server does not pass on.
			d.failed("metrics of "+at+" by the pod proxy of the API server", err)
		} else if err := d.file(path.Join("metrics", at, c.Name+".txt"), text); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done++; d.done%podsPerLine == 0 {
		d.Progress(fmt.Sprintf("read %d of %s", d.done, format.Count(len(d.Pods), "pod")))
	}
	return ctx.Err()
}

// metricsPort returns the scheme and the number of the port of /metrics; empty if there is none. The proxy of pods
// knows no names of ports.
func metricsPort(c *corev1.Container) (scheme, port string) {
	for _, name := range []string{"http", "health", "https"} {
		i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
		if i < 0 {
			continue
		}
		scheme = "http"
		if name == "https" || slices.Contains(c.Args, "--secure-metrics") {
			scheme = "https"
		}
		return scheme, strconv.Itoa(int(c.Ports[i].ContainerPort))
	}
	return "", ""
}

// log writes the log of a container, or that of the container before it was restarted.
func (d *dump) log(ctx context.Context, pod *corev1.Pod, container string, previous bool) error {
	name := container + ".log"
	if previous {
		name = container + ".previous.log"
	}
	text, err := d.read(ctx, d.LogBytes, func(ctx context.Context) (io.ReadCloser, error) {
		return d.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Previous: previous, Timestamps: true}).Stream(ctx)
	})
	if err != nil {
		d.failed(fmt.Sprintf("log %s of %s/%s", name, pod.Namespace, pod.Name), err)
		return ctx.Err()
	}
	return d.file(path.Join("logs", pod.Namespace, pod.Name, name), text)
}

// read returns the last bytes of a response.
func (d *dump) read(ctx context.Context, limit int64, open func(context.Context) (io.ReadCloser, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return tail(stream, limit)
}

// tail returns the last lines of a stream, of at most limit bytes, after a line that says how much is missing.
// It uses about twice the limit of memory.
func tail(from io.Reader, limit int64) ([]byte, error) {
	var kept []byte
	var before int64
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		kept = append(kept, buffer[:n]...)
		if over := int64(len(kept)) - limit; over > limit || over > 0 && err != nil {
			before += over
			kept = append(kept[:0], kept[over:]...)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if before == 0 {
		return kept, nil
	}
	if i := slices.Index(kept, '\n'); i >= 0 && i+1 < len(kept) {
		before += int64(i + 1)
		kept = kept[i+1:]
	}
	return append(fmt.Appendf(nil, "(%d bytes before this are not in the dump)\n", before), kept...), nil
}
