// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	v1alpha1 "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/fit"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/inspect/why"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
)

const fitDescription = `fit shows how many replicas of a workload would be placed: on which nodes, with which volumes, and what
storage is left. If not all fit, it shows what the first one that does not fit lacks. Nothing is written.

The replicas are placed by the scheduler's own code, one after another, on what the cluster has now. Pods
and claims that the workload has already count. Objects beside the workload in the file, such as claims and
StorageClasses, count as created.

Not simulated: preemption, extenders, other pods that wait for a node, webhooks, admission policies,
LimitRanges, ResourceQuotas, and the overhead of a RuntimeClass.`

const fitExamples = `  kubectl stowage fit -f statefulset.yaml
  kubectl stowage fit -f statefulset.yaml --replicas max
  kubectl stowage fit --claims 10Gi:local-disks,1Gi:local-log --replicas 5 --one-per-node
  kubectl stowage fit --claims 100Gi:local-disks:Block --replicas max -o json | jq .placed`

type fitOptions struct {
	*cluster
	output                       outputFlag
	filename, claims, replicas   string
	schedulerName, configuration string
	onePerNode                   bool
}

func newFitCommand(c *cluster) *cobra.Command {
	o := &fitOptions{cluster: c}
	cmd := &cobra.Command{
		Use: "fit (-f FILE | --claims SIZE[:CLASS[:MODE...]],...)", Short: "How many replicas of a workload would be placed, and where", Long: fitDescription,
		Example: fitExamples, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.output.add(cmd, "wide")
	flags := cmd.Flags()
	flags.StringVarP(&o.filename, "filename", "f", "", "manifest of a StatefulSet, Deployment, ReplicaSet, Job or Pod; - is the standard input")
	flags.StringVar(&o.claims, "claims", "", "claims of each replica instead of a manifest: SIZE[:CLASS[:MODE...]], with the default class if there is none; modes are Block, RWO, ROX, RWX, RWOP")
	flags.StringVar(&o.replicas, "replicas", "", fmt.Sprintf("number of replicas, or max for as many as fit, at most %d; default that of the manifest, or 1", fit.Most))
	flags.BoolVar(&o.onePerNode, "one-per-node", false, "with --claims: no two replicas on a node")
	flags.StringVar(&o.schedulerName, "scheduler-name", "", "scheduler of the pods; default spec.schedulerName, or with --claims "+schedulerconfig.Name)
	flags.StringVar(&o.configuration, "config", "", "file with the KubeSchedulerConfiguration of the scheduler")
	_ = cmd.RegisterFlagCompletionFunc("replicas", cobra.FixedCompletions([]string{"max"}, cobra.ShellCompDirectiveNoFileComp)) // fails for unknown flags only
	return cmd
}

func (o *fitOptions) run(cmd *cobra.Command) error {
	config, err := o.workload(cmd)
	if err != nil {
		return err
	}
	queries := schedulingQueries()
	for i := range queries {
		queries[i].Whole = queries[i].Kind == snapshot.KindOf[*corev1.Node]() // the scheduler prefers nodes that have the image
	}
	s, err := o.read(cmd.Context(), queries...)
	if err != nil {
		return err
	}
	report, err := placeReplicas(cmd.Context(), s, config, o.configuration)
	if err != nil {
		return err
	}
	return o.output.print(cmd, report, func(p *printer) { (fitPrinter{p, report}).print(o.output == "wide") })
}

// placeReplicas answers how many replicas would be placed on a snapshot with what schedulingQueries read. file is the value
// of --config.
func placeReplicas(ctx context.Context, s *snapshot.Snapshot, config fit.Config, file string) (*v1alpha1.Fit, error) {
	p, err := profileOf(config.Workload.Template.Spec.SchedulerName, file, s)
	if err != nil {
		return nil, err
	}
	config.Simulate, config.Configuration, config.Extenders = p.simulation(s), p.source, p.extenders
	config.Explain = func(ctx context.Context, pod *corev1.Pod, s *snapshot.Snapshot, simulator *simulate.Simulator) (*v1alpha1.PodReport, error) {
		return why.Pod(ctx, why.PodQuestion{Snapshot: s, Pod: pod, Simulator: simulator, Profile: p.source})
	}
	return fit.Run(ctx, config)
}

// workload reads the flags.
func (o *fitOptions) workload(cmd *cobra.Command) (config fit.Config, err error) {
	namespace, err := o.namespace()
	if err != nil {
		return config, err
	}
	switch {
	case o.filename != "" && o.claims != "":
		return config, errors.New("--filename and --claims exclude each other: omit one of them")
	case o.filename != "" && o.onePerNode:
		return config, errors.New("--one-per-node: it is for --claims; write the pod anti-affinity to the manifest")
	case o.filename != "":
		content, err := o.open(cmd)
		if err != nil {
			return config, fmt.Errorf("--filename: %w", err)
		}
		defer content.Close()
		config.Workload, config.Beside, err = fit.Decode(content, namespace, *o.Namespace != "")
		if err != nil {
			return config, fmt.Errorf("--filename: %s: %w", o.filename, err)
		}
	case o.claims != "":
		config.Workload, err = fit.Claims{Claims: o.claims, Namespace: namespace, Scheduler: schedulerconfig.Name, OnePerNode: o.onePerNode}.Workload()
		if err != nil {
			return config, fmt.Errorf("--claims: %w", err)
		}
	default:
		return config, errors.New("give a manifest with --filename, or claims with --claims, such as --claims 10Gi:local-disks")
	}
	scheduler := &config.Workload.Template.Spec.SchedulerName
	*scheduler = cmp.Or(o.schedulerName, *scheduler, corev1.DefaultSchedulerName)
	return config, o.count(&config)
}

// open opens the manifest.
func (o *fitOptions) open(cmd *cobra.Command) (io.ReadCloser, error) {
	if o.filename == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return os.Open(o.filename)
}

// count sets the number of replicas.
func (o *fitOptions) count(config *fit.Config) (err error) {
	w := config.Workload
	switch {
	case o.replicas != "":
		if w.Replicas, config.Max, err = parseReplicas(o.replicas); err != nil {
			return fmt.Errorf("--replicas: %w", err)
		}
	case w.Replicas < 1:
		return fmt.Errorf("--filename: %s has no replicas: give a number with --replicas", w)
	case w.Replicas > fit.Most:
		return fmt.Errorf("--filename: %s has %d replicas, and at most %d can be simulated: give fewer with --replicas", w, w.Replicas, fit.Most)
	}
	return nil
}

// parseReplicas returns a number of replicas; for max the largest one.
func parseReplicas(text string) (n int, most bool, err error) {
	if text == "max" {
		return fit.Most, true, nil
	}
	n, err = strconv.Atoi(text)
	if err != nil || n < 1 || n > fit.Most {
		return 0, false, fmt.Errorf("must be max or a number from 1 to %d, and is %q", fit.Most, text)
	}
	return n, false, nil
}

// fitPrinter prints a report.
type fitPrinter struct {
	*printer
	*v1alpha1.Fit
}

// maxReplicas are listed; of more, the nodes are.
const maxReplicas = 50

func (p fitPrinter) print(wide bool) {
	p.paragraph(p.Sentence, "")
	for _, why := range p.Unknown {
		p.paragraph("- "+why, "  ")
	}
	configuration := "its default configuration"
	if p.Configuration != defaultSource {
		configuration = "the configuration of " + p.Configuration
	}
	p.paragraph(fmt.Sprintf("The scheduler is %s, with %s.", p.Scheduler, configuration), "")
	switch {
	case len(p.Replicas) > maxReplicas && !wide:
		p.nodes()
	case len(p.Replicas) > 0:
		p.replicas()
	}
	if p.Missing != nil {
		p.missing()
	}
	if len(p.Left) > 0 && p.EligibleNodes > 0 {
		p.left()
	}
}

// replicas prints each replica and its claims.
func (p fitPrinter) replicas() {
	rows := [][]string{{"REPLICA", "NODE", "CLAIM", "CLASS", "REQUEST", "VOLUME"}}
	for _, r := range p.Replicas {
		node := r.Node
		if r.Running {
			node += " (runs)"
		}
		if len(r.Claims) == 0 {
			rows = append(rows, []string{r.Name, node, "", "", "", ""})
		}
		for _, c := range r.Claims {
			rows = append(rows, []string{r.Name, node, c.Name, c.Class, format.Size(c.Bytes), volumeOf(c, r.Node != "")})
		}
	}
	fmt.Fprintln(p)
	p.table(rows)
}

func volumeOf(c v1alpha1.FitClaim, placed bool) string {
	text := c.Volume
	switch {
	case c.Provisioned:
		return "to be provisioned"
	case c.Volume == "" && placed:
		return "not known"
	case c.VolumeBytes > 0:
		text += fmt.Sprintf(" (%s)", format.Size(c.VolumeBytes))
	}
	if c.Bound {
		text += ", bound"
	}
	return text
}

// nodes prints the number of replicas of each node.
func (p fitPrinter) nodes() {
	count := map[string]int{}
	for _, r := range p.Replicas {
		count[r.Node]++
	}
	rows := [][]string{{"NODE", "REPLICAS"}}
	nodes := make([]string, 0, len(count))
	for node := range count {
		if node != "" {
			nodes = append(nodes, node)
		}
	}
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) })
	for _, node := range nodes[:min(len(nodes), maxReplicas)] {
		rows = append(rows, []string{node, strconv.Itoa(count[node])})
	}
	fmt.Fprintln(p)
	p.table(rows)
	if n := len(nodes) - maxReplicas; n > 0 {
		fmt.Fprintf(p, "and %s\n", format.Count(n, "more node"))
	}
	p.paragraph("-o wide lists the replicas.", "")
}

// missing prints why a replica has no node.
func (p fitPrinter) missing() {
	fmt.Fprintln(p)
	p.paragraph(fmt.Sprintf("%s fits no node:", p.Missing.Name), "")
	rows := [][]string{{"NODES", "WHY"}}
	for _, reason := range p.Missing.Everywhere {
		rows = append(rows, []string{"all", reasonText(reason)})
	}
	for _, g := range p.Missing.Groups {
		nodes := format.List(g.Nodes, 3)
		for _, reason := range g.Reasons {
			rows = append(rows, []string{nodes, reasonText(reason)})
			nodes = " " // not a hyphen
		}
	}
	p.table(rows)
	if len(p.Missing.Changes) > 0 {
		fmt.Fprintln(p)
		p.paragraph(fmt.Sprintf("What would help %s: %s.", p.Missing.Name, p.Missing.Changes[0].Text), "")
	}
}

func reasonText(r v1alpha1.PodReason) string {
	text := r.Message
	if r.Claim != "" {
		text = "claim " + r.Claim + ": " + text
	}
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	return text
}

// left prints the free storage.
func (p fitPrinter) left() {
	after := "Free"
	if p.Placed > p.Running {
		after = "Free afterwards"
	}
	rows := [][]string{{"CLASS", "FREE VOLUMES", "SUM", "LARGEST", "CSI CAPACITY"}}
	for _, l := range p.Left {
		row := []string{l.Class, strconv.Itoa(l.Volumes), "", "", ""}
		if l.Volumes > 0 {
			row[2], row[3] = format.Size(l.Bytes), format.Size(l.LargestBytes)
		}
		switch {
		case l.CapacityBytes != nil:
			row[4] = format.Size(*l.CapacityBytes)
			if l.LargestCapacityBytes != nil {
				row[4] += ", largest " + format.Size(*l.LargestCapacityBytes)
			}
		case l.Provisions:
			row[4] = "not reported"
		}
		rows = append(rows, row)
	}
	fmt.Fprintln(p)
	p.paragraph(fmt.Sprintf("%s on the %s that the pods may use:", after, format.Count(p.EligibleNodes, "node")), "")
	p.table(rows)
}
