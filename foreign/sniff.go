package foreign

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

type parser func([]byte) (Result, error)

// errUnknown says what can be read.
var errUnknown = errors.New("it is of none of the tools that can be read: vegeta report -type=json, wrk, wrk2, hey, oha --output-format json, autocannon --json, k6 --summary-export or handleSummary")

// sniff finds the tool by what only its output has.
func sniff(text []byte) (string, parser, error) {
	switch {
	case len(text) == 0:
		return "", nil, errors.New("it is empty")
	case text[0] == '{':
		return sniffJSON(text)
	case wrkHead().Match(text):
		if bytes.Contains(text, []byte("Thread calibration: ")) || bytes.Contains(text, []byte("(HdrHistogram - Recorded Latency)")) {
			return Wrk2, parseWrk2, nil
		}
		return Wrk, parseWrk, nil
	case heyRate().Match(text) && bytes.Contains(text, []byte("Summary:")):
		return Hey, parseHey, nil
	case bytes.HasPrefix(text, []byte("unable to connect to ")):
		return "", nil, fmt.Errorf("wrk made no request: %q", clean(string(text)))
	}
	return "", nil, errUnknown
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

// oneValue decodes the one JSON value that the text has to be.
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
