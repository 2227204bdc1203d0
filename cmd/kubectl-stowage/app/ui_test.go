// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/commands"
	"stowage.dev/stowage/test/deadline"
)

// ui is kubectl stowage ui that runs until the test ends, and a browser with a session.
type ui struct {
	*testing.T
	http.Client
	address string
	lines   *bufio.Reader
}

func startUI(t *testing.T, args ...string) *ui {
	t.Helper()
	t.Setenv("KUBECONFIG", os.DevNull)
	out, write := io.Pipe()
	cmd := NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: write, ErrOut: write})
	cmd.SetArgs(append([]string{"ui"}, args...))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		out.Close()
		if err := <-ended; err != nil {
			t.Errorf("ui: %v", err)
		}
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u := &ui{T: t, Client: http.Client{Jar: jar, Timeout: deadline.Wait()}, lines: bufio.NewReader(out)}
	address, err := url.Parse(u.announced("Storage map, until Ctrl-C. Its address, valid once: "))
	if err != nil {
		t.Fatal(err)
	}
	u.address = "http://" + address.Host
	u.get(http.StatusOK, address.RequestURI())
	u.announced("For another browser: ")
	return u
}

// announced returns the address of the next line, which begins with text.
func (u *ui) announced(text string) string {
	u.Helper()
	line, err := u.lines.ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), text)
	if err != nil || !ok {
		u.Fatalf("printed %q, want %q: %v", line, text, err)
	}
	return address
}

// get returns the answer to a request.
func (u *ui) get(status int, path string) string {
	u.Helper()
	response, err := u.Get(u.address + path)
	if err != nil {
		u.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		u.Fatalf("%s: status %d, want %d: %s, %v", path, response.StatusCode, status, body, err)
	}
	return string(body)
}

// event returns the first event of a name that is as wanted.
func (u *ui) event(name string, into any, wanted func() bool) {
	u.Helper()
	response, err := u.Get(u.address + "/events")
	if err != nil {
		u.Fatal(err)
	}
	defer response.Body.Close()
	events := bufio.NewReader(response.Body)
	for line := ""; ; {
		before := line
		if line, err = events.ReadString('\n'); err != nil {
			u.Fatalf("no %s: %v", name, err)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || before != "event: "+name+"\n" {
			continue
		}
		if err := json.Unmarshal([]byte(data), into); err != nil {
			u.Fatal(err)
		}
		if wanted() {
			return
		}
	}
}

// printed is what a command prints with -o json.
func printed(t *testing.T, args ...string) any {
	t.Helper()
	out, err := commands.Output(t, newTestCommand(), append(args, "-o", "json")...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return parsed(t, out)
}

func parsed(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// TestUIAnswers: the page answers as the commands do.
func TestUIAnswers(t *testing.T) {
	for from, questions := range map[string]map[string]string{
		storageCluster: {
			"/why?kind=pvc&namespace=db&name=data-db-2":               "why pvc data-db-2 -n db",
			"/why?kind=pv&name=local-pv-node-a-003":                   "why pv local-pv-node-a-003",
			"/why?kind=disk&name=node-b/local-disks/disk-1":           "why disk node-b/local-disks/disk-1",
			"/why?kind=node&name=node-c":                              "why node node-c",
			"/why?kind=pod&namespace=db&name=db-0":                    "why pod db-0 -n db",
			"/why?kind=disk&name=" + url.QueryEscape("node-a/disk-3"): "why disk node-a/disk-3",
		},
		"testdata/whypod/cluster.yaml": {"/why?kind=pod&namespace=shop&name=db-3": "why pod db-3 -n shop"},
		"testdata/fit/cluster": {
			"/fit?claims=10Gi,5Gi:local-log&replicas=max":   "fit --claims 10Gi,5Gi:local-log --replicas max",
			"/fit?claims=10Gi&replicas=4&onePerNode=true":   "fit --claims 10Gi --replicas 4 --one-per-node",
			"/fit?claims=50Gi:shared&namespace=web":         "fit --claims 50Gi:shared -n web",
			"/fit?claims=70Gi:local-disks:Block&replicas=1": "fit --claims 70Gi:local-disks:Block --replicas 1",
		},
	} {
		t.Run(from, func(t *testing.T) {
			u := startUI(t, "--from", from)
			for path, command := range questions {
				want := printed(t, append(strings.Fields(command), "--from", from)...)
				if diff := cmp.Diff(want, parsed(t, u.get(http.StatusOK, path))); diff != "" {
					t.Errorf("%s is not as %s (-want +got):\n%s", path, command, diff)
				}
			}
		})
	}
}

// TestUIErrors: as those of the commands, with the names of the fields and without hints about flags.
func TestUIErrors(t *testing.T) {
	u := startUI(t, "--from", "testdata/whypod/cluster.yaml", "-n", "shop")
	for path, want := range map[string]struct {
		status int
		err    string
	}{
		"/why?kind=pod&name=db-4":             {http.StatusNotFound, `there is no pod "db-4" in namespace shop`},
		"/why?kind=pvc&namespace=x&name=data": {http.StatusNotFound, `there is no claim "data" in namespace x`},
		"/why?kind=pod&name=batch-0":          {http.StatusBadRequest, `the configuration of scheduler "batch-scheduler" is not known: use kubectl stowage why batch-0 -n shop --config FILE`},
		"/fit?claims=":                        {http.StatusBadRequest, `claims: "": the size must be a quantity, such as 10Gi or 10Gi:local-disks`},
		"/fit?claims=1Gi&replicas=1001":       {http.StatusBadRequest, `replicas: must be max or a number from 1 to 1000, and is "1001"`},
		"/fit?claims=1Gi:none":                {http.StatusBadRequest, `claim claim-1-fit-0: there is no StorageClass "none"; there is local-disks`},
	} {
		if diff := cmp.Diff(map[string]any{"error": want.err}, parsed(t, u.get(want.status, path))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// TestUIWaiting: the page shows of a pod what why prints.
func TestUIWaiting(t *testing.T) {
	const from = "testdata/whypod/cluster.yaml"
	u := startUI(t, "--from", from)
	var state struct {
		Connected bool   `json:"connected"`
		From      string `json:"from"`
		Nodes     int    `json:"nodes"`
	}
	u.event("state", &state, func() bool { return state.Connected })
	if state.From != from || state.Nodes != 4 {
		t.Errorf("state %+v", state)
	}
	var waiting struct {
		Pods []struct {
			Name     string `json:"name"`
			Sentence string `json:"sentence"`
			Changes  []any  `json:"changes"`
		} `json:"pods"`
		Pending bool `json:"pending"`
	}
	u.event("waiting", &waiting, func() bool { return !waiting.Pending })
	report := printed(t, "why", "db-3", "-n", "shop", "--from", from).(map[string]any)
	for _, pod := range waiting.Pods {
		if pod.Name == "db-3" && (pod.Sentence != report["sentence"] || cmp.Diff(report["changes"].([]any)[:3], pod.Changes) != "") {
			t.Errorf("pod %+v, want %v", pod, report)
		}
	}
	if len(waiting.Pods) == 0 {
		t.Error("no pods wait")
	}
}

// TestUIMap: the page shows what map prints.
func TestUIMap(t *testing.T) {
	u := startUI(t, "--from", storageCluster)
	var summary struct {
		Classes any `json:"classes"`
		Total   any `json:"total"`
	}
	u.event("summary", &summary, func() bool { return true })
	byClass := printed(t, "map", "--by", "class", "--from", storageCluster).(map[string]any)
	if diff := cmp.Diff(byClass["rows"], summary.Classes); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(byClass["total"], summary.Total); diff != "" {
		t.Errorf("total (-want +got):\n%s", diff)
	}
	var nodes struct {
		Complete bool `json:"complete"`
		Nodes    []struct {
			Disks []any `json:"disks"`
		} `json:"nodes"`
	}
	u.event("nodes", &nodes, func() bool { return nodes.Complete })
	var disks []any
	for _, node := range nodes.Nodes {
		disks = append(disks, node.Disks...)
	}
	if diff := cmp.Diff(byClass["disks"], any(disks)); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
}

// TestUIWithoutEvents: while the API server is away, the page answers with what it read before.
func TestUIWithoutEvents(t *testing.T) {
	t.Setenv("KUBECONFIG", os.DevNull)
	c := &cluster{ConfigFlags: genericclioptions.NewConfigFlags(true)}
	*c.APIServer = "http://127.0.0.1:1"
	answer, err := (&uiAnswers{cluster: c}).Why(t.Context(), snapshot.Build(builders.MakeNode("a").Obj()), v1alpha1.Reference{Kind: "node", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	report := answer.(*v1alpha1.StorageReport)
	if diff := cmp.Diff([]string{"events"}, report.Unseen); diff != "" || len(report.Sentences) == 0 {
		t.Errorf("sentences %q, unseen (-want +got):\n%s", report.Sentences, diff)
	}
}

// TestUIFlags: errors in one line.
func TestUIFlags(t *testing.T) {
	t.Setenv("KUBECONFIG", os.DevNull)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	used := listener.Addr().(*net.TCPAddr).Port
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a port that is in use":            {[]string{"--from", storageCluster, fmt.Sprint("--port=", used)}, fmt.Sprintf("--port: %d is in use: give another one, or 0 for any free one", used)},
		"a port that is too large":         {[]string{"--from", storageCluster, "--port=65536"}, "--port: must be 0, or from 1024 to 65535, and is 65536"},
		"a port for root only":             {[]string{"--from", storageCluster, "--port=80"}, "--port: must be 0, or from 1024 to 65535, and is 80"},
		"an argument":                      {[]string{"node-a"}, `unknown command "node-a" for "kubectl stowage ui"`},
		"files that do not exist":          {[]string{"--from=/does/not/exist"}, "/does/not/exist"},
		"a kubeconfig that does not exist": {[]string{"--kubeconfig=/does/not/exist"}, "/does/not/exist"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := commands.Output(t, newTestCommand(), append([]string{"ui"}, tc.args...)...); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}
