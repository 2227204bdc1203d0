// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/apis/component"
	"stowage.dev/stowage/pkg/server"
	"stowage.dev/stowage/pkg/server/command"
	"stowage.dev/stowage/pkg/testing/commands"
)

// settings are the content of a file: the path of a kubeconfig, or nothing.
type settings struct{ kubeconfig string }

// newCommand returns a command that prints its connection.
func newCommand() *cobra.Command {
	var cmd *cobra.Command
	cmd = command.New(command.Config[settings]{
		Name: "test", File: "a file",
		Default: func() (settings, error) { return settings{}, nil },
		Decode: func(text []byte) (settings, error) {
			word := strings.TrimSpace(string(text))
			if word == "wrong" {
				return settings{}, errors.New("a wrong word")
			}
			return settings{word}, nil
		},
		Connection: func(s settings) component.ClientConnection {
			return component.ClientConnection{Kubeconfig: s.kubeconfig, QPS: new(int32(7)), Burst: new(int32(9))}
		},
		Summary: func(s settings) string { return "kubeconfig " + s.kubeconfig },
		Run: func(_ context.Context, _ settings, c *rest.Config, _ *server.Secure) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s as %s, %v %d", c.Host, c.UserAgent, c.QPS, c.Burst)
			return err
		},
	})
	return cmd
}

// TestCommand: invalid input is rejected before anything starts; the kubeconfig of the configuration
// takes precedence over that of the flag.
func TestCommand(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig := func(host string) string {
		return file(host, "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: \"https://"+host+"\"}}]\ncontexts: [{name: c, context: {cluster: c}}]\n")
	}
	ours, other := kubeconfig("ours"), kubeconfig("other")
	commands.Run(t, newCommand, map[string]commands.Case{
		"a file that is missing":     {Args: []string{"--config=/does/not/exist"}, Err: "/does/not/exist"},
		"a file that is wrong":       {Args: []string{"--config=" + file("wrong", "wrong")}, Err: "wrong: a wrong word"},
		"an argument":                {Args: []string{"argument"}, Err: "argument"},
		"outside of a cluster":       {Err: "--kubeconfig"},
		"a kubeconfig of nothing":    {Args: []string{"--kubeconfig=/does/not/exist"}, Err: "/does/not/exist"},
		"the flag's kubeconfig":      {Args: []string{"--kubeconfig=" + ours}, Want: "https://ours as test/" + command.Version() + ", 7 9"},
		"the same beside a file":     {Args: []string{"--kubeconfig=" + ours, "--config=" + file("empty", "")}, Want: "https://ours as"},
		"the configuration's wins":   {Args: []string{"--kubeconfig=" + ours, "--config=" + file("named", other)}, Want: "https://other as"},
		"logs as Kubernetes has":     {Args: []string{"--kubeconfig=" + ours, "--v=2", "--logging-format=text"}, Want: "https://ours as"},
		"logs of an unknown format":  {Args: []string{"--kubeconfig=" + ours, "--logging-format=rhymes"}, Err: "rhymes"},
		"validate what is right":     {Args: []string{"validate", file("right", "x")}, Want: "right is valid, kubeconfig x"},
		"validate what is wrong":     {Args: []string{"validate", file("bad", "wrong")}, Err: "bad: a wrong word"},
		"validate applies log flags": {Args: []string{"validate", file("right", "x"), "--logging-format=rhymes"}, Err: "rhymes"},
		"version":                    {Args: []string{"--version"}, Want: "test version " + command.Version()},
	})
}
