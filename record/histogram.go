package record

import (
	"fmt"
	"path/filepath"
	"strings"

	"ceiling/internal/hist"
)

// ReadHistogram reads one latency of a whole run, "response", "service" or
// "lag", from the run's directory.
func ReadHistogram(dir, name string) (*hist.Hist, error) {
	path := filepath.Join(dir, name+histogramSuffix)
	text, err := readAll(path)
	if err != nil {
		return nil, fmt.Errorf("read histogram: %w", err)
	}
	h, err := hist.DecodeV2(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("read histogram: %s: %w", path, err)
	}
	return hist.FromHDR(h), nil
}
