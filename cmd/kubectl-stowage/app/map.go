// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/inspect/storagemap"
)

const mapDescription = `map shows where the storage is: for each node and class how much of the volumes with node affinity is
free, reserved, bound or being cleaned, which disks are in trouble, what CSI drivers can still
provision, and which pods wait for storage. Volumes of all provisioners count.

Of more than 50 nodes it shows the sums of zones, and the nodes with the least and the most free
storage; --by node shows all. -o wide lists disks. -n limits the pods that wait, not the volumes.

--watch shows the map again when it changes, until you end the command: instead of the one before on a
terminal, else below it. Users who may list objects, and not watch them, see changes within half a minute.`

const mapExamples = `  kubectl stowage map
  kubectl stowage map --by class
  kubectl stowage map --node node-a -o wide
  kubectl stowage map --watch
  kubectl stowage map -o json | jq '.rows[] | select(.free.volumes == 0) | .node'`

type mapOptions struct {
	*cluster
	output          outputFlag
	by, class, node string
	watch           bool
	chosen          bool // by
}

func newMapCommand(c *cluster) *cobra.Command {
	o := &mapOptions{cluster: c}
	cmd := &cobra.Command{
		Use: "map", Short: "Where the storage is: per node and class, and pods that wait for it", Long: mapDescription, Example: mapExamples,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.output.add(cmd, "wide")
	cmd.Flags().StringVar(&o.by, "by", string(storagemap.ByNode), "sum the volumes by node, zone or class")
	cmd.Flags().StringVar(&o.class, "class", "", "only volumes of this StorageClass")
	cmd.Flags().StringVar(&o.node, "node", "", "only volumes of this node")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "show the map again when it changes")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"node", "zone", "class"}, cobra.ShellCompDirectiveNoFileComp)) // fails for unknown flags only
	c.completeFlag(cmd, "class", snapshot.KindOf[*storagev1.StorageClass]())
	c.completeFlag(cmd, "node", snapshot.KindOf[*corev1.Node]())
	return cmd
}

func (o *mapOptions) run(cmd *cobra.Command) error {
	if by := storagemap.By(o.by); !slices.Contains([]storagemap.By{storagemap.ByNode, storagemap.ByZone, storagemap.ByClass}, by) {
		return fmt.Errorf("--by: must be one of node, zone, class, and is %q", o.by)
	}
	if o.watch && o.from != "" {
		return errors.New("--watch: files do not change: omit --watch or --from")
	}
	o.chosen = cmd.Flags().Changed("by")
	if o.watch {
		return o.runWatch(cmd)
	}
	s, err := o.read(cmd.Context(), o.queries()...)
	if err != nil {
		return err
	}
	if err := o.known(s); err != nil {
		return err
	}
	return o.print(newPrinter(cmd), s, o.report(s))
}

// queries are what the map reads.
func (o *mapOptions) queries() []snapshot.Query {
	var all []snapshot.Query
	for _, kind := range storagemap.Kinds() {
		query := snapshot.Query{Kind: kind}
		if kind == snapshot.KindOf[*corev1.Pod]() && o.output == "table" {
			query.Fields = "spec.nodeName=" // the others are only for the list of disks
		}
		all = append(all, query)
	}
	if o.watch || o.class != "" || o.output == "wide" {
		return all
	}
	return append(all, storagemap.LocalDisks(o.node))
}

func (o *mapOptions) options(by storagemap.By) storagemap.Options {
	return storagemap.Options{By: by, Class: o.class, Node: o.node, Namespace: *o.Namespace}
}

func (o *mapOptions) report(s *snapshot.Snapshot) *v1alpha1.StorageMap {
	return storagemap.Map(s, o.options(storagemap.By(o.by)))
}

// print prints the map of a snapshot.
func (o *mapOptions) print(p *printer, s *snapshot.Snapshot, report *v1alpha1.StorageMap) error {
	return o.output.printTo(p, report, func(p *printer) {
		m := mapPrinter{printer: p, symbols: symbolsOf(os.Getenv), now: s.Time}
		switch {
		case o.output == "wide":
			m.disks(report.Disks)
			m.unseen(report.Unseen)
		case !o.chosen && report.Total.Nodes > maxMapNodes:
			by := storagemap.ByZone
			sums := storagemap.Map(s, o.options(by))
			if len(sums.Rows) > maxMapNodes {
				by = storagemap.ByClass
				sums = storagemap.Map(s, o.options(by))
			}
			m.print(report, sums, by)
		default:
			m.print(report, report, storagemap.By(o.by))
		}
	})
}

// known returns an error for a class or a node that nothing in the snapshot has.
func (o *mapOptions) known(s *snapshot.Snapshot) error {
	if o.class == "" && o.node == "" {
		return nil
	}
	all := storagemap.Map(s, storagemap.Options{By: storagemap.ByNode})
	nodes, classes := map[string]bool{}, map[string]bool{}
	for _, node := range snapshot.Of[*corev1.Node](s) {
		nodes[node.Name] = true
	}
	for _, class := range snapshot.Of[*storagev1.StorageClass](s) {
		classes[class.Name] = true
	}
	for _, row := range all.Rows {
		nodes[row.Node], classes[row.Class] = true, true
	}
	for _, row := range all.NetworkVolumes {
		classes[row.Class] = true
	}
	if o.class != "" && !classes[o.class] {
		return unknownName("--class", "StorageClass", o.class, classes)
	}
	if o.node != "" && !nodes[o.node] {
		return unknownName("--node", "node", o.node, nodes)
	}
	return nil
}

// unknownName returns the error for a name that no object of a kind has.
func unknownName(flag, kind, name string, known map[string]bool) error {
	delete(known, "")
	all := slices.Sorted(maps.Keys(known))
	hint := fmt.Sprintf("there are %s", format.List(all, 5))
	if len(all) == 0 {
		hint = "there are none"
	}
	if similar := format.Similar(name, all); len(similar) > 0 {
		hint = fmt.Sprintf("similar: %s", format.List(similar, 3))
	}
	return fmt.Errorf("%s: there is no %s %q; %s", flag, kind, name, hint)
}
