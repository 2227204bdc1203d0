// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command soak runs the campaigns, which are the tests that call campaign.Begin, in full strength:
// one after the other, each in a process of its own with a time limit. It prints what the running
// one says, at most a line every 30 seconds, keeps the logs in _artifacts/soak, goes on after a
// failure, and exits with 1 if a campaign failed.
//
//	go run ./hack/soak -run 'faults.TestStress'
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// soakEnv is campaign.SoakEnv.
	soakEnv = "STOWAGE_SOAK"
	// logs is where the output of each campaign goes.
	logs = "_artifacts/soak"
	// quiet is how long soak prints nothing while a campaign runs.
	quiet = 30 * time.Second
	// tail is how many lines of a campaign that failed are printed.
	tail = 60
)

func main() {
	run := flag.String("run", "", "run the campaigns that match the regular expression, such as faults.TestStress")
	limit := flag.Duration("timeout", 45*time.Minute, "how long a campaign may take")
	list := flag.Bool("list", false, "print the campaigns and do nothing")
	flag.Parse()
	ok, err := soak(*run, *limit, *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func soak(run string, limit time.Duration, list bool) (ok bool, err error) {
	only, err := regexp.Compile(run)
	if err != nil {
		return false, fmt.Errorf("-run: %w", err)
	}
	all, err := find(".", "cmd", "pkg", "test")
	if err != nil {
		return false, err
	}
	all = slices.DeleteFunc(all, func(c campaign) bool {
		if !only.MatchString(c.String()) {
			return true
		}
		needsRoot := strings.HasPrefix(c.folder, "test/e2e") && os.Geteuid() != 0
		if needsRoot {
			fmt.Fprintf(os.Stderr, "left out %s: needs root\n", c)
		}
		return needsRoot
	})
	if len(all) == 0 {
		return false, fmt.Errorf("no campaign matches %q", run)
	}
	if list {
		for _, c := range all {
			fmt.Println(c)
		}
		return true, nil
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return false, err
	}
	var results []string
	ok = true
	for i, c := range all {
		fmt.Printf("%d of %d: %s, at most %s\n", i+1, len(all), c, limit)
		began := time.Now()
		result := "passed"
		if err := c.run(limit); err != nil {
			ok, result = false, "FAILED: "+err.Error()
		}
		results = append(results, fmt.Sprintf("%s  %s  %s  %s", began.Format(time.DateOnly), time.Since(began).Round(time.Second), c, result))
		fmt.Println("  " + results[i])
	}
	fmt.Println("\n" + strings.Join(results, "\n"))
	return ok, nil
}

// run runs the campaign and follows its output.
func (c campaign) run(limit time.Duration) error {
	log, err := os.Create(filepath.Join(logs, strings.ReplaceAll(c.String(), "/", "-")+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(context.Background(), "go", "test", "-v", "-count=1", "-timeout="+limit.String(), "-run=^"+c.test+"$", "./"+c.folder)
	cmd.Env = append(os.Environ(), soakEnv+"=1")
	if strings.HasPrefix(c.folder, "test/integration/") {
		cmd.Env = append(cmd.Env, "KUBE_CACHE_MUTATION_DETECTOR=true") // as make test-integration does
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	last, readErr := follow(io.TeeReader(output, log))
	if err := cmd.Wait(); err != nil {
		fmt.Println(strings.Join(last, "\n"))
		return fmt.Errorf("%w; all it said is in %s", err, log.Name())
	}
	return readErr
}

// klogLine matches what components log, which says little about the campaign.
var klogLine = regexp.MustCompile(`^[IWEF]\d{4} `)

// follow reads lines until the end, prints one of them when nothing was printed for a while, and
// returns the last ones.
func follow(output io.Reader) (last []string, err error) {
	lines := make(chan string)
	ended := make(chan error, 1)
	go func() {
		scanner := bufio.NewScanner(output)
		scanner.Buffer(nil, 64<<20)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		ended <- scanner.Err()
	}()
	said, began, alive := "", time.Now(), time.NewTicker(quiet)
	defer alive.Stop()
	for {
		select {
		case line := <-lines:
			if last = append(last, line); len(last) > tail {
				last = last[1:]
			}
			if !klogLine.MatchString(line) {
				said = strings.TrimSpace(line)
			}
		case <-alive.C:
			fmt.Printf("  %s  %.150s\n", time.Since(began).Round(time.Second), said)
		case err := <-ended:
			return last, err
		}
	}
}
