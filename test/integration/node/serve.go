// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// askAgain is the time between two requests to the provisioner.
const askAgain = 100 * time.Millisecond

var servesAt = regexp.MustCompile(`"Serving health and metrics" address="([^"]+)"`)

// Answer is an HTTP status and the body.
type Answer struct {
	Status int
	Body   string
}

// WaitAnswer requests a path of the provisioner, such as "/readyz", until is accepts the answer.
func (n *Node) WaitAnswer(path, what string, is func(Answer) bool) Answer {
	n.t.Helper()
	return WaitAnswer(n.t, n.Env, n.provisioner, path, what, is)
}

// WaitAnswer requests a path of a process until is accepts the answer.
func WaitAnswer(t testing.TB, e *fixture.Env, process *cluster.Process, path, what string, is func(Answer) bool) Answer {
	t.Helper()
	var last Answer
	var asked error
	err := wait.PollUntilContextTimeout(e.Context(), askAgain, e.Timeout, true, func(ctx context.Context) (bool, error) { //nolint:forbidigo // the endpoints have no events
		var answer Answer
		if answer, asked = ask(ctx, process, path); asked == nil {
			last = answer
		}
		return asked == nil && is(answer), nil
	})
	if err != nil {
		t.Fatalf("waited %s for the answer of %s to be %s: %v; it was %d %s", e.Timeout, path, what, errors.Join(err, asked), last.Status, tail([]byte(last.Body), 4000))
	}
	return last
}

// ask requests a path of a process, at the address in its log.
func ask(ctx context.Context, process *cluster.Process, path string) (Answer, error) {
	log, err := os.ReadFile(process.LogFile())
	if err != nil {
		return Answer{}, err
	}
	found := servesAt.FindAllSubmatch(log, -1)
	if len(found) == 0 {
		return Answer{}, errors.New("the process serves nothing yet")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(found[len(found)-1][1])+path, nil)
	if err != nil {
		return Answer{}, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return Answer{Status: response.StatusCode, Body: string(body)}, err
}

// RunToEnd runs another provisioner of the node, with more arguments and without the node's
// name in the environment, and returns its output. It must end by itself, with
// an error.
func (n *Node) RunToEnd(args ...string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.Env.Context(), n.Env.Timeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, append(n.process().Args(), args...)...).CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ctx.Err() != nil {
		n.t.Fatal(fmt.Errorf("a provisioner that should have ended with an error: %w\n%s", errors.Join(err, ctx.Err()), out))
	}
	return string(out)
}
