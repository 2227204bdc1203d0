// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"stowage.dev/stowage/pkg/inspect/format"
	"stowage.dev/stowage/pkg/inspect/install"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/inspect/sysdump"
	"stowage.dev/stowage/pkg/server/command"
)

const sysdumpDescription = `Write the state of the cluster into one archive, for a report of a fault: objects and events, logs and metrics of the
components of Stowage, versions, and the output of status. kubectl stowage reads it with --from.

It has no Secrets, no values of environment variables, no last-applied annotations, no ConfigMaps of others, and of
containers of others no commands, arguments and probes. Names of pods, claims and namespaces are kept: look at it
before you give it to others. What may not be read is recorded in errors.txt in the archive.`

func newSysdumpCommand(c *cluster) *cobra.Command {
	var file, logBytes string
	cmd := &cobra.Command{
		Use:   "sysdump",
		Short: "Write objects, events, logs and metrics into an archive, without secrets",
		Long:  sysdumpDescription,
		Example: `  kubectl stowage sysdump
  kubectl stowage sysdump --output-file fault.tar.gz --log-bytes 1Mi
  kubectl stowage status --from fault.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			limit, err := parseLogBytes(logBytes)
			if err != nil {
				return err
			}
			if c.from != "" {
				return errors.New("--from: sysdump reads a cluster: leave out --from")
			}
			if file == "" {
				file = "stowage-sysdump-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
			}
			return c.sysdump(cmd, file, limit)
		},
	}
	cmd.Flags().StringVar(&file, "output-file", "", "write this file, whose name ends in .tar.gz or .tgz; the default is stowage-sysdump-TIME.tar.gz")
	cmd.Flags().StringVar(&logBytes, "log-bytes", "4Mi", "keep at most this much of each container's log, the last lines")
	return cmd
}

// maxLogBytes bounds the memory of a log.
const maxLogBytes = 1 << 30

func parseLogBytes(text string) (int64, error) {
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Value() < 1 || quantity.Value() > maxLogBytes {
		return 0, fmt.Errorf("--log-bytes: must be a size from 1 to 1Gi, such as 4Mi, and is %q", text)
	}
	return quantity.Value(), nil
}

// sysdump writes a dump. The file appears when it is complete.
func (c *cluster) sysdump(cmd *cobra.Command, file string, logBytes int64) (err error) {
	if !strings.HasSuffix(file, ".tar.gz") && !strings.HasSuffix(file, ".tgz") {
		return fmt.Errorf("--output-file: must end in .tar.gz or .tgz, by which --from knows an archive, and is %q", file)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--output-file: %s exists: name another file", file)
	}
	part, err := os.CreateTemp(filepath.Dir(file), ".stowage-sysdump-") // only its owner may read it
	if err != nil {
		return fmt.Errorf("--output-file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part.Name()))
		}
	}()
	missing, err := c.dump(cmd, part, strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".tar.gz"), ".tgz"), logBytes)
	if err == nil {
		err = part.Sync()
	}
	if err = errors.Join(err, part.Close()); err != nil {
		return err
	}
	info, err := os.Stat(part.Name())
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.Rename(part.Name(), file); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Wrote %s, %s.\n", file, format.Size(info.Size()))
	if len(missing) > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "%s could not be read; errors.txt in it names each, such as:\n  %s\n", format.Count(len(missing), "thing"), missing[0])
	}
	return nil
}

// dump reads the cluster and writes the archive.
func (c *cluster) dump(cmd *cobra.Command, to *os.File, folder string, logBytes int64) ([]string, error) {
	ctx := cmd.Context()
	progress := func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) }
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	progress("checking the installation")
	s, err := c.readInstallation(ctx)
	if err != nil {
		return nil, err
	}
	files, err := statusFiles(s)
	if err != nil {
		return nil, err
	}
	var queries []snapshot.Query
	for _, kind := range snapshot.Kinds() {
		if kind.Resource != snapshot.KindOf[*corev1.ConfigMap]().Resource {
			queries = append(queries, snapshot.Query{Kind: kind})
		}
	}
	return sysdump.Write(ctx, to, sysdump.Config{
		Connection: config, Namespace: namespace, Folder: folder,
		Queries:  append(queries, configQueries(s)...),
		Redactor: sysdump.Redactor{Own: install.IsOwn, ConfigMaps: install.Configs(s)},
		Pods:     install.Pods(s), Files: files, LogBytes: logBytes, Progress: progress,
	})
}

// statusFiles are the status as a table and as JSON, and the versions.
func statusFiles(s *snapshot.Snapshot) (map[string][]byte, error) {
	status := install.Assess(s, nil)
	var table bytes.Buffer
	printStatus(&printer{Writer: &table, width: defaultWidth}, status)
	report, err := json.MarshalIndent(status, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	versions := "kubectl stowage " + command.Version() + "\n"
	if s.Server != nil {
		versions += fmt.Sprintf("API server %s, %s, built with %s\n", s.Server.GitVersion, s.Server.Platform, s.Server.GoVersion)
	}
	return map[string][]byte{"status.txt": table.Bytes(), "status.json": report, "versions.txt": []byte(versions)}, nil
}
