// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/install"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

const statusDescription = `Check the installation of Stowage: its components, their versions, replicas, leaders, configurations and rights,
admission policies, heartbeats of provisioners, and disks in trouble.

The exit code is 0 if no check found a problem. Warnings, and checks for which you may not read what they need,
do not change it, unless no component can be seen.`

const (
	// waitDefault is the time of --wait without a value.
	waitDefault = 5 * time.Minute
	// waitPeriod is the time between two reads of --wait. A watch of the 20 kinds that are read would take more
	// requests, and most of what changes is Leases, which do not change the answer.
	waitPeriod = 2 * time.Second
)

func newStatusCommand(c *cluster) *cobra.Command {
	var output outputFlag
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Check the installation: components, versions, leaders, rights, policies, disks",
		Long:  statusDescription,
		Example: `  kubectl stowage status
  kubectl stowage status --wait=10m
  kubectl stowage status -o json
  kubectl stowage status --from stowage-sysdump.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := c.status(cmd, wait)
			if err != nil {
				return err
			}
			if err := output.print(cmd, status, func(p *printer) { printStatus(p, status) }); err != nil {
				return err
			}
			if !status.Healthy {
				return exitCode(1)
			}
			return nil
		},
	}
	output.add(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait until the installation is healthy, at most this long; without a value 5m")
	cmd.Flags().Lookup("wait").NoOptDefVal = waitDefault.String()
	return cmd
}

// status reads the status, and with wait again until it is healthy.
func (c *cluster) status(cmd *cobra.Command, wait time.Duration) (*inspect.Status, error) {
	if wait < 0 {
		return nil, fmt.Errorf("--wait: must be more than 0, and is %s", wait)
	}
	if wait > 0 && c.from != "" {
		return nil, errors.New("--wait: files do not change: leave out --wait or --from")
	}
	ctx := cmd.Context()
	status, err := c.readStatus(ctx)
	deadline := time.Now().Add(wait)
	said := ""
	for wait > 0 && (err != nil || !status.Healthy) {
		if time.Now().Add(waitPeriod).After(deadline) {
			break
		}
		text := ""
		if err != nil {
			text = err.Error()
		} else {
			text = install.Summary(status)
		}
		if text != said {
			fmt.Fprintln(cmd.ErrOrStderr(), "waiting:", text)
			said = text
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("interrupted")
		case <-time.After(waitPeriod):
		}
		status, err = c.readStatus(ctx)
	}
	return status, err
}

func (c *cluster) readStatus(ctx context.Context) (*inspect.Status, error) {
	s, err := c.readInstallation(ctx)
	if err != nil {
		return nil, err
	}
	reviewed, err := c.reviewRights(ctx, install.Reviews(s))
	if err != nil {
		return nil, err
	}
	return install.Assess(s, reviewed), nil
}

// readInstallation reads what the status needs: first the workloads, then the ConfigMaps that they mount, since
// those of others are many and can hold anything.
func (c *cluster) readInstallation(ctx context.Context) (*snapshot.Snapshot, error) {
	s, err := c.read(ctx, install.Queries()...)
	if err != nil || c.from != "" {
		return s, err
	}
	maps, err := c.read(ctx, configQueries(s)...)
	if err != nil {
		return nil, err
	}
	return snapshot.Merge(s, maps), nil
}

// configQueries read the ConfigMaps of the installation in a snapshot.
func configQueries(s *snapshot.Snapshot) []snapshot.Query {
	var queries []snapshot.Query
	for _, name := range install.Configs(s) {
		queries = append(queries, snapshot.Query{
			Kind: snapshot.KindOf[*corev1.ConfigMap](), Namespace: name.Namespace, Fields: "metadata.name=" + name.Name,
		})
	}
	return queries
}

// printStatus prints the answer, then what is wrong with what to do, then the components and the other checks.
func printStatus(p *printer, status *inspect.Status) {
	p.paragraph(install.Summary(status), "")
	for _, state := range []inspect.CheckState{inspect.CheckProblem, inspect.CheckWarning} {
		for _, check := range status.Checks {
			if check.State == state {
				printFault(p, &check)
			}
		}
	}
	if len(status.Components) > 0 {
		fmt.Fprintln(p)
		rows := [][]string{{"COMPONENT", "READY", "VERSION", "NAMESPACE", "LEADER"}}
		for _, c := range status.Components {
			rows = append(rows, []string{c.Part, fmt.Sprintf("%d/%d", c.Ready, c.Wanted), c.Version, c.Namespace, c.Leader})
		}
		p.table(rows)
	}
	rows := [][]string{{"STATE", "PART", "CHECK", "RESULT"}}
	for _, state := range []inspect.CheckState{inspect.CheckUnknown, inspect.CheckOK} {
		for _, c := range status.Checks {
			if c.State == state {
				rows = append(rows, []string{string(state), c.Part, c.Name, c.Message})
			}
		}
	}
	if len(rows) > 1 {
		fmt.Fprintln(p)
		p.table(rows)
	}
	if len(status.Unseen) > 0 {
		fmt.Fprintln(p)
		p.paragraph("Not seen: "+strings.Join(withoutGroups(status.Unseen), ", ")+". A user who may list these in all namespaces gets the other answers.", "  ")
	}
}

// withoutGroups returns resources without their API groups, as kubectl takes them.
func withoutGroups(resources []string) []string {
	var all []string
	for _, text := range resources {
		resource, where, _ := strings.Cut(text, " ")
		resource, _, _ = strings.Cut(resource, ".")
		all = append(all, strings.TrimSpace(resource+" "+where))
	}
	return all
}

// printFault prints a check that is not OK, and what to do: on one line, so that a command can be copied.
func printFault(p *printer, check *inspect.Check) {
	fmt.Fprintln(p)
	p.paragraph(strings.ToUpper(string(check.State))+" "+check.Part+" "+check.Name+": "+check.Message, "  ")
	if check.Next != "" {
		fmt.Fprintln(p, "  Next: "+check.Next)
	}
	if check.Link != "" {
		fmt.Fprintln(p, "  See: "+check.Link)
	}
}
