package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

type parser func([]byte) (Result, error)

// supported lists the tools that are read.
const supported = "wrk, wrk2, go-wrk, hey, ab, h2load, oha, autocannon, ghz and k6 (their text, or JSON where they have it), vegeta (report as text or JSON, or its results)"

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
	heads := sniffText(text)
	switch len(heads) {
	case 0:
		return "", nil, unsupported(text)
	case 1:
		return heads[0].tool, heads[0].parse, nil
	}
	return "", nil, fmt.Errorf("it holds output of %s and of %s: give each run a file of its own", heads[0].tool, heads[1].tool)
}

// head is a tool whose header occurs in the text.
type head struct {
	tool  string
	parse parser
}

// sniffText finds the headers of all tools in a text. go-wrk and autocannon print wrk's first
// line.
func sniffText(text []byte) []head {
	has := func(part string) bool { return bytes.Contains(text, []byte(part)) }
	var heads []head
	add := func(found bool, tool string, parse parser) bool {
		if found {
			heads = append(heads, head{tool, parse})
		}
		return found
	}
	gowrk := add(gowrkHead().Match(text), GoWrk, parseGoWrk)
	autocannon := add(has("│ Latency ") && has("│ Req/Sec ") || autocannonOld().Match(text), Autocannon, parseAutocannonText)
	wrk2 := has("Thread calibration: ") || has("(HdrHistogram - Recorded Latency)")
	wrk := wrkHead().Match(text) && (wrkThreads().Match(text) || !gowrk && !autocannon)
	add(wrk && !wrk2, Wrk, parseWrk)
	add(wrk && wrk2, Wrk2, parseWrk2)
	oha := has("Summary:") && ohaSuccess().Match(text)
	add(oha, Oha, parseOhaText)
	ghz := add(has("Summary:") && ghzCount().Match(text), Ghz, parseGhzText)
	add(has("Summary:") && heyRate().Match(text) && !oha && !ghz, Hey, parseHey)
	add(abHead().Match(text), Ab, parseAb)
	add(h2loadRate().Match(text) || h2loadTotal().Match(text), H2load, parseH2load)
	add(vegetaHead().Match(text), Vegeta, parseVegetaText)
	add(k6Requests().Match(text), K6, parseK6Text)
	return heads
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
	case has("latency", "requests", "2xx"):
		return Autocannon, parseAutocannon, nil
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

// oneValue decodes text that must be a single JSON value.
func oneValue(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("it is damaged: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one JSON value in it; give the summary, not the samples")
	}
	return nil
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
