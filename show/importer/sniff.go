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

// errUnknown lists the supported tools.
var errUnknown = errors.New("it is of none of the tools that can be read: wrk, wrk2, go-wrk, hey, ab, h2load, oha, autocannon and k6 (their text, or JSON where they have it), vegeta (report as text or JSON, or its results)")

// sniff identifies the tool by a mark unique to its output.
func sniff(text []byte) (string, parser, error) {
	switch {
	case len(text) == 0:
		return "", nil, errors.New("it is empty")
	case text[0] == '{':
		return sniffJSON(text)
	case bytes.HasPrefix(text, []byte("unable to connect to ")):
		return "", nil, fmt.Errorf("wrk made no request: %q", clean(string(text)))
	}
	heads := sniffText(text)
	switch len(heads) {
	case 0:
		return "", nil, errUnknown
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
	autocannon := add(has("│ Latency ") && has("│ Req/Sec "), Autocannon, parseAutocannonText)
	wrk2 := has("Thread calibration: ") || has("(HdrHistogram - Recorded Latency)")
	wrk := wrkHead().Match(text) && (wrkThreads().Match(text) || !gowrk && !autocannon)
	add(wrk && !wrk2, Wrk, parseWrk)
	add(wrk && wrk2, Wrk2, parseWrk2)
	oha := has("Summary:") && ohaSuccess().Match(text)
	add(oha, Oha, parseOhaText)
	add(has("Summary:") && heyRate().Match(text) && !oha, Hey, parseHey)
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
	case has("metrics") && bytes.HasPrefix(bytes.TrimSpace(keys["metrics"]), []byte("{")):
		return K6, parseK6, nil
	case has("version", "config", "results"):
		return K6, parseK6, nil
	case strings.HasPrefix(string(keys["schema"]), `"ceiling.`):
		return "", nil, errors.New("it is a record of ceiling itself; give its directory or its ID")
	}
	return "", nil, errUnknown
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
