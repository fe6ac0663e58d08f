// Package export writes a record in the formats of other tools, and serves metrics during a run: a
// scraper reads Live.
//
// There is one file per format. docs/export.md lists what each format cannot express; values that
// were not measured are omitted everywhere.
package export

import (
	"errors"
	"fmt"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"ceiling/internal/hist"
	"ceiling/record"
)

// Format names.
const (
	FormatJSON       = "json"
	FormatNDJSON     = "ndjson"
	FormatCSV        = "csv"
	FormatHGRM       = "hgrm"
	FormatPrometheus = "prometheus"
	FormatPprof      = "pprof"
	FormatFolded     = "folded"
)

// Formats returns all format names, in the order of docs/export.md.
func Formats() []string {
	return []string{FormatJSON, FormatNDJSON, FormatCSV, FormatHGRM, FormatPrometheus, FormatPprof, FormatFolded}
}

// Latencies returns the names of a request's three latencies.
func Latencies() []string { return []string{"response", "service", "lag"} }

// Source is one run to export.
type Source struct {
	Run *record.Run
	// Problems lists what is wrong with the record, one line each.
	Problems []string

	contents *record.Contents
}

// Open reads a run. Errors come from record.Open.
func Open(f record.File) (*Source, error) {
	c, err := record.Read(f)
	if err != nil {
		return nil, err
	}
	return &Source{Run: c.Run, Problems: c.Series.Problems, contents: c}, nil
}

// quantiles returns the quantiles of a latency from the run's document.
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
	return nil, fmt.Errorf("unknown latency %q; use one of %s", of, strings.Join(Latencies(), ", "))
}

// text returns a histogram as HdrHistogram V2 in base64.
func (s *Source) text(of string) (string, error) {
	switch text := s.contents.Histograms[of]; {
	case text != "":
		return text, nil
	case s.Run.Unfinished:
		return "", errors.New("the run was killed before its histograms were written")
	}
	return "", errors.New("the record has none")
}

// Histogram reads the whole run's histogram of a latency, in nanoseconds. It fails if the
// histogram and the run's document count different numbers of requests.
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
		return nil, fmt.Errorf("histogram of the %s time: %w", of, err)
	}
	if n := h.TotalCount(); n < 0 || uint64(n) != q.Count {
		return nil, fmt.Errorf("histogram of the %s time counts %d requests, the run's document %d: they are not of one run", of, n, q.Count)
	}
	return h, nil
}
