// Package importer parses the output of other load generators into one plain struct, along with
// the known gaps of each tool. It reads the text of wrk, wrk2, go-wrk, hey, ab, h2load and autocannon
// (formats.go); the JSON of oha, ghz and vegeta, and k6's summary in its three forms; vegeta's results;
// each also as a log, a terminal or a quotation has it (plain.go).
//
// It invents nothing: a figure that the tool did not print is missing.
package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"ceiling/internal/lazy"
)

// inputMax limits the input size: k6's summary of a thousand thresholds, the longest of these, is
// below 1 MB.
const inputMax = 16 << 20

const (
	// sniffed is the number of bytes used to distinguish vegeta's results from text.
	sniffed = 512
	// resultsMax limits vegeta's results, which include every body.
	resultsMax = 4 << 30
)

// Read parses one result of at most 16 MiB (vegeta's results: 4 GiB) and detects the tool that
// wrote it. The error is one line: either no tool matches, or what is wrong with the input.
func Read(in io.Reader) (Result, error) {
	buffered := bufio.NewReaderSize(in, sniffed)
	head, err := buffered.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return Result{}, fmt.Errorf("read result: %w", err)
	}
	if isVegetaResults(head) {
		r, err := readVegetaResults(io.LimitReader(buffered, resultsMax))
		if err != nil {
			return Result{}, fmt.Errorf("read result of %s: %w", Vegeta, err)
		}
		return checked(r)
	}
	data, err := io.ReadAll(io.LimitReader(buffered, inputMax+1))
	if err != nil {
		return Result{}, fmt.Errorf("read result: %w", err)
	}
	if len(data) > inputMax {
		return Result{}, fmt.Errorf("read result: more than %d bytes; give the summary, not the samples", inputMax)
	}
	return Parse(data)
}

// Parse is Read for bytes.
func Parse(data []byte) (Result, error) {
	if isVegetaResults(data[:min(len(data), sniffed)]) {
		return Read(bytes.NewReader(data))
	}
	text := plain(data)
	if isVegetaResults(text[:min(len(text), sniffed)]) {
		return Read(bytes.NewReader(text))
	}
	if bytes.HasPrefix(text, []byte("{")) {
		text = document(text)
	}
	tool, parse, err := sniff(text)
	if errors.Is(err, errUnknown) {
		text = document(text)
		tool, parse, err = sniff(text)
	}
	if err != nil {
		return Result{}, fmt.Errorf("read result: %w", err)
	}
	r, err := parse(text)
	if err != nil {
		return Result{}, fmt.Errorf("read result of %s: %w", tool, err)
	}
	return checked(r)
}

// document returns the JSON between the lines of a log; without any, the text.
func document(text []byte) []byte {
	from, to := bytes.IndexByte(text, '{'), bytes.LastIndexByte(text, '}')
	if from < 0 || to < from || from > 0 && text[from-1] != '\n' {
		return text
	}
	return text[from : to+1]
}

// checked validates what every result has.
func checked(r Result) (Result, error) {
	if !(r.DurationS >= 1e-9 && r.DurationS <= 1e9) {
		return Result{}, fmt.Errorf("read result of %s: a run of %g s cannot be", r.Tool, r.DurationS)
	}
	for _, n := range []int{r.Connections, r.Workers, r.Pipelining} {
		if n < 0 || n > loadMax {
			return Result{}, fmt.Errorf("read result of %s: %d connections, workers or requests in flight cannot be", r.Tool, n)
		}
	}
	r.finish()
	return r, nil
}

// finish computes the rate, and sorts and truncates the lists.
func (r *Result) finish() {
	r.CompletedPerS = float64(r.Requests) / r.DurationS
	slices.SortStableFunc(r.Quantiles, func(a, b Quantile) int { return cmp.Compare(a.Q, b.Q) })
	for i := 1; i < len(r.Quantiles); i++ {
		if a, b := r.Quantiles[i-1], r.Quantiles[i]; b.Ns+b.ResolutionNs < a.Ns {
			r.caveat("its quantile %g is below its quantile %g: one of them is wrong", b.Q, a.Q)
			break
		}
	}
	slices.SortStableFunc(r.Errors, func(a, b Error) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.What, b.What))
	})
	if len(r.Errors) > causesMax {
		var rest uint64
		for _, e := range r.Errors[causesMax-1:] {
			rest += e.Count
		}
		r.Errors = append(r.Errors[:causesMax-1:causesMax-1], Error{"other causes", rest})
	}
	r.holdArithmetic()
	r.Target = clean(r.Target)
	if loopback().MatchString(r.Target) {
		r.caveat("the target is on loopback: generator and server shared the CPUs of one host, so the result reflects both")
	}
}

// loopback matches a URL of the generator's own host.
var loopback = lazy.Regexp(`^https?://(?:localhost|127\.[0-9.]+|\[::1\])(?:[:/]|$)`)

type parser func([]byte) (Result, error)

// supported lists the tools that are read.
const supported = "wrk, wrk2, go-wrk, hey, ab, h2load and autocannon (their text), oha, ghz, k6 and vegeta (their JSON), and vegeta's results"

var errUnknown = errors.New("unknown format; supported: " + supported)

// sniff identifies the tool by a mark unique to its output.
func sniff(text []byte) (string, parser, error) {
	switch {
	case len(text) == 0:
		return "", nil, errors.New("it is empty")
	case text[0] == '{':
		return sniffJSON(text)
	case bytes.HasPrefix(text, []byte("unable to connect to ")):
		why, _, _ := strings.Cut(string(text), "\n")
		return "", nil, fmt.Errorf("wrk made no request: %q", clean(why))
	}
	var found []*format
	for i := range formats {
		if f := &formats[i]; matching(f.mark).Match(text) && (f.not == "" || !matching(f.not).Match(text)) {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 0:
		return "", nil, unsupported(text)
	case 1:
		return found[0].tool, found[0].parse, nil
	}
	return "", nil, fmt.Errorf("it holds output of %s and of %s: give each run its own file", found[0].tool, found[1].tool)
}

func sniffJSON(text []byte) (string, parser, error) {
	var keys map[string]json.RawMessage
	if err := oneValue(text, &keys); err != nil {
		return "", nil, err
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := keys[name]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("latencies", "status_codes"):
		return Vegeta, parseVegeta, nil
	case has("summary", "latencyPercentiles"):
		return Oha, parseOha, nil
	case has("count", "total", "rps", "latencyDistribution"):
		return Ghz, parseGhz, nil
	case has("metrics") && bytes.HasPrefix(bytes.TrimSpace(keys["metrics"]), []byte("{")):
		return K6, parseK6, nil
	case has("version", "config", "results"):
		return K6, parseK6, nil
	case strings.HasPrefix(string(keys["schema"]), `"ceiling.`):
		return "", nil, errors.New("it is a record of ceiling itself; give its directory or its ID")
	}
	return "", nil, unsupported(text)
}

// unsupported says of which tool a text is, if it is of one that is known and not read.
func unsupported(text []byte) error {
	for _, t := range []struct {
		tool  string
		marks []string // each is in its output
	}{
		{"siege", []string{"Transactions:", "Availability:"}},
		{"siege", []string{`"transactions":`, `"availability":`}},
		{"bombardier", []string{"Bombarding "}},
		{"bombardier", []string{"Reqs/sec ", "HTTP codes:"}},
		{"bombardier", []string{`"numberOfConnections":`, `"result":`}},
		{"locust", []string{"Aggregated", "# reqs", "# fails"}},
		{"locust", []string{"Request Count,Failure Count,"}},
		{"Gatling", []string{"---- Global Information ---"}},
		{"Gatling", []string{`"numberOfRequests":`, `"meanNumberOfRequestsPerSecond":`}},
		{"JMeter", []string{"timeStamp,elapsed,label,"}},
		{"JMeter", []string{"<testResults"}},
		{"JMeter", []string{"summary = ", " Avg: ", " Err: "}},
		{"fortio", []string{"Aggregated Function Time :"}},
		{"fortio", []string{`"RunType":`, `"ActualQPS":`}},
		{"Artillery", []string{"Summary report @"}},
		{"Artillery", []string{`"http.requests":`, `"vusers.created":`}},
		{"httperf", []string{"Total: connections ", "Connection rate: "}},
		{"weighttp", []string{"weighttp ", "finished in "}},
		{"drill", []string{"Concurrency: ", "Successful requests", "Time taken for tests"}},
		{"plow", []string{"Benchmarking ", "Elapsed ", "RPS "}},
		{"rewrk", []string{"Beginning round ", "Latencies:"}},
		{"nighthawk", []string{"Nighthawk - "}},
		{"hey's CSV", []string{"response-time,DNS+dialup,DNS,"}},
		{"ghz's CSV", []string{"duration (ms),status,error"}},
		{"oha's CSV", []string{"request-start,DNS,DNS+dialup,"}},
	} {
		all := true
		for _, mark := range t.marks {
			all = all && bytes.Contains(text, []byte(mark))
		}
		if all {
			return fmt.Errorf("%s output is not read; supported: %s", t.tool, supported)
		}
	}
	return errUnknown
}
