// Package export writes a record in the formats that other tools read, and
// shows a run to them while it goes on: a scraper reads Live, a collector is
// sent it by a Pusher.
//
// There is one file per format. What a format cannot say is left out of it and
// listed in docs/export.md; what was not measured is left out everywhere.
package export

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ceiling/internal/hist"
	"ceiling/record"
)

// Names of the formats.
const (
	FormatJSON       = "json"
	FormatNDJSON     = "ndjson"
	FormatCSV        = "csv"
	FormatHGRM       = "hgrm"
	FormatHDR        = "hdr"
	FormatVegeta     = "vegeta"
	FormatPrometheus = "prometheus"
	FormatOTLP       = "otlp"
)

// Formats are all of them, in the order of docs/export.md.
func Formats() []string {
	return []string{FormatJSON, FormatNDJSON, FormatCSV, FormatHGRM, FormatHDR, FormatVegeta, FormatPrometheus, FormatOTLP}
}

// Latencies are the names of the three times of a request.
func Latencies() []string { return []string{"response", "service", "lag"} }

// Source is one run to export.
type Source struct {
	Dir string
	Run *record.Run
	// Problems is what is wrong with the record, one line each.
	Problems []string
}

// Open reads a run, but not its histograms. Errors are those of record.Open.
func Open(dir string) (*Source, error) {
	run, series, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Source{Dir: dir, Run: run, Problems: series.Problems}, nil
}

// histogramMax bounds a file of one histogram: 23,552 counters of nine bytes
// at most, compressed to no more than themselves, are 290 kB in base64.
const histogramMax = 1 << 20

// quantiles are a latency's figures in the run's document.
func (s *Source) quantiles(of string) (*record.Quantiles, error) {
	l := &s.Run.Latency
	switch of {
	case "response":
		return &l.Response, nil
	case "service":
		return &l.Service, nil
	case "lag":
		return &l.Lag, nil
	}
	return nil, fmt.Errorf("there is no latency %q; it is one of %s", of, strings.Join(Latencies(), ", "))
}

// text reads a histogram's file, HdrHistogram V2 in base64.
func (s *Source) text(of string) (string, error) {
	path := filepath.Join(s.Dir, of+".hdr")
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.Run.Unfinished:
		return "", errors.New("the run was killed before its histograms were written")
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Size() > histogramMax:
		return "", fmt.Errorf("%s is no histogram: not a file of at most %d bytes", path, histogramMax)
	}
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err
}

// Histogram reads the whole run's histogram of a latency, nanoseconds. It is
// held against the run's document: the two have to count the same requests.
func (s *Source) Histogram(of string) (*hdrhistogram.Histogram, error) {
	q, err := s.quantiles(of)
	if err != nil {
		return nil, err
	}
	text, err := s.text(of)
	if err != nil {
		return nil, fmt.Errorf("no histogram of the %s time: %w", of, err)
	}
	h, err := hist.DecodeV2(text)
	if err != nil {
		return nil, fmt.Errorf("%s.hdr: %w", of, err)
	}
	if n := h.TotalCount(); n < 0 || uint64(n) != q.Count {
		return nil, fmt.Errorf("%s.hdr counts %d requests, the run's document %d: they are not of one run", of, n, q.Count)
	}
	return h, nil
}
