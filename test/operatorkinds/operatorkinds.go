// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operatorkinds finds the kinds of the Prometheus operator that manifests/monitoring uses,
// for tests that install them.
package operatorkinds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// module is the operator's, in the version that hack/monitoring pins.
const module = "github.com/prometheus-operator/prometheus-operator"

// Names are the names of the kinds' CustomResourceDefinitions.
var Names = []string{
	"podmonitors.monitoring.coreos.com", "prometheusrules.monitoring.coreos.com", "servicemonitors.monitoring.coreos.com",
}

// Files returns the files of the CustomResourceDefinitions, in the order of Names. They are in
// Go's module cache; the first call downloads the module.
func Files(ctx context.Context) ([]string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return nil, errors.New("find the repository: this binary has no path of its sources")
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = filepath.Join(filepath.Dir(file), "..", "..", "hack", "monitoring")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find module %s: %w\n%s%s", module, err, out, stderr.Bytes())
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, fmt.Errorf("find module %s: %w", module, err)
	}
	var files []string
	for _, name := range Names {
		plural, group, _ := strings.Cut(name, ".")
		files = append(files, filepath.Join(downloaded.Dir, "example", "prometheus-operator-crd", group+"_"+plural+".yaml"))
	}
	return files, nil
}
