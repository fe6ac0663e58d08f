package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Kinds of rows other than observed ones.
const (
	KindLoad        = "load"
	KindAgent       = "agent"
	KindNotMeasured = "not_measured"
)

const (
	// seriesMax bounds the bytes read of a series: a one-hour run on a large host leaves some 200
	// MB.
	seriesMax = 1 << 30
	// rawMax bounds the bytes kept of rows of unknown kinds.
	rawMax = 16 << 20
)

// Series is the rows of a run in the order they were written. Unreadable rows are counted and
// omitted, never invented.
type Series struct {
	// Load is the generator's rows; with several agents, of all together.
	Load []LoadRow
	// Agents is the rows of single agents, if there are several: Host names the agent.
	Agents []LoadRow
	// Observed is what the hosts did.
	Observed ObservedRows
	// NotMeasured is what was lost during the run.
	NotMeasured []NotMeasured

	// Unknown counts the rows of kinds unknown to this version, by kind; Raw has the first 16 MiB
	// of them unchanged.
	Unknown  map[string]int
	Raw      []json.RawMessage
	rawBytes int

	Damage
}

// take handles one row.
func (s *Series) take(kind string, line []byte) error {
	switch observed, err := s.Observed.decode(kind, line); {
	case observed:
		return err
	case kind == KindLoad || kind == KindAgent:
		var row LoadRow
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		if row.WidthNs < 0 || row.WidthNs > math.MaxInt64/4 || row.TNs > math.MaxInt64/4 || row.TNs < math.MinInt64/4 {
			return fmt.Errorf("a row of %d ns at %d ns cannot be", row.WidthNs, row.TNs)
		}
		if s := row.Response; s != nil && !s.Possible() {
			return fmt.Errorf("%d counts from step %d on cannot be", len(s.Counts), s.First)
		}
		if kind == KindAgent {
			s.Agents = append(s.Agents, row)
		} else {
			s.Load = append(s.Load, row)
		}
	case kind == KindNotMeasured:
		var row NotMeasured
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		s.NotMeasured = append(s.NotMeasured, row)
	default:
		return s.unknown(kind, line)
	}
	return nil
}

// unknown keeps a row written by a newer version or another program.
func (s *Series) unknown(kind string, line []byte) error {
	const kindsMax, kindMax = 100, 64 // a file of noise must not fill the table
	if !json.Valid(line) {
		return errors.New("no JSON")
	}
	if len(kind) > kindMax {
		kind = kind[:kindMax]
	}
	if s.Unknown == nil {
		s.Unknown = map[string]int{}
	}
	if _, there := s.Unknown[kind]; !there && len(s.Unknown) >= kindsMax {
		kind = "other"
	}
	s.Unknown[kind]++
	if s.rawBytes+len(line) <= rawMax {
		s.rawBytes += len(line)
		s.Raw = append(s.Raw, bytes.Clone(line))
	}
	return nil
}
