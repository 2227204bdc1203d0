// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scans are the provisioner's counts of scans, and their total seconds.
func (m *machine) scans(ctx context.Context) (count int, seconds float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.address+"/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, fmt.Errorf("get the provisioner's metrics: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, 0, fmt.Errorf("get the provisioner's metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return 0, 0, fmt.Errorf("read the provisioner's metrics: %w", err)
	}
	const name = "stowage_provisioner_scan_duration_seconds"
	for _, metric := range families[name].GetMetric() {
		histogram := metric.GetHistogram()
		return int(histogram.GetSampleCount()), histogram.GetSampleSum(), nil
	}
	return 0, 0, fmt.Errorf("read the provisioner's metrics: %s is missing", name)
}
