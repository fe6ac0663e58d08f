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
	FormatPprof      = "pprof"
	FormatFolded     = "folded"
	FormatAttachment = "attachment"
)

// Formats are all of them, in the order of docs/export.md.
func Formats() []string {
	return []string{FormatJSON, FormatNDJSON, FormatCSV, FormatHGRM, FormatHDR, FormatVegeta, FormatPrometheus, FormatOTLP, FormatPprof,
		FormatFolded, FormatAttachment}
}

// Latencies are the names of the three times of a request.
func Latencies() []string { return []string{"response", "service", "lag"} }

// Source is one run to export.
type Source struct {
	Run *record.Run
	// Problems is what is wrong with the record, one line each.
	Problems []string

	contents *record.Contents
}

// Open reads a run. Errors are those of record.Open.
func Open(f record.File) (*Source, error) {
	c, err := record.Read(f)
	if err != nil {
		return nil, err
	}
	return &Source{Run: c.Run, Problems: c.Series.Problems, contents: c}, nil
}

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

// text is a histogram, HdrHistogram V2 in base64.
func (s *Source) text(of string) (string, error) {
	switch text := s.contents.Histograms[of]; {
	case text != "":
		return text, nil
	case s.Run.Unfinished:
		return "", errors.New("the run was killed before its histograms were written")
	}
	return "", errors.New("the record has none")
}

// Attachment is what else was kept of the run under a name.
func (s *Source) Attachment(name string) ([]byte, error) {
	var names []string
	for i := range s.contents.Attachments {
		a := &s.contents.Attachments[i]
		if a.Name == name {
			return a.Bytes(), nil
		}
		names = append(names, a.Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the record has no %q, and nothing else attached", name)
	}
	return nil, fmt.Errorf("the record has no %q; it has %s", name, strings.Join(names, ", "))
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
		return nil, fmt.Errorf("histogram of the %s time: %w", of, err)
	}
	if n := h.TotalCount(); n < 0 || uint64(n) != q.Count {
		return nil, fmt.Errorf("histogram of the %s time counts %d requests, the run's document %d: they are not of one run", of, n, q.Count)
	}
	return h, nil
}
