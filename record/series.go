package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Kinds of rows that are not observed.
const (
	KindLoad        = "load"
	KindAgent       = "agent"
	KindNotMeasured = "not_measured"
)

const (
	// lineMax bounds one row: one of 4096 CPUs with every category is 0.6 MB.
	lineMax = 4 << 20
	// seriesMax bounds what is read of a series: a run of an hour on a large
	// host leaves some 200 MB.
	seriesMax = 1 << 30
	// rawMax bounds the bytes kept of rows of unknown kinds.
	rawMax = 16 << 20
	// problemsMax is how many bad lines are described.
	problemsMax = 10
)

// Series is the rows of a run in the order they were written. Rows that could
// not be read are counted and left out; nothing is made up for them.
type Series struct {
	// Load is the generator's rows, of several agents those of all together.
	Load []LoadRow
	// Agents is the rows of single agents, where there are several: Host names
	// the agent.
	Agents []LoadRow
	// Observed is what the hosts did; Of picks one kind.
	Observed []ObservedRow
	// NotMeasured is what got lost on the way.
	NotMeasured []NotMeasured

	// Unknown counts the rows of kinds that this program does not know, by
	// kind; Raw has the first 16 MiB of them as they are.
	Unknown  map[string]int
	Raw      []json.RawMessage
	rawBytes int

	// Bad counts the lines that are no row, the last one not included when it
	// is Truncated, which it is when the writer was killed. Cut tells that the
	// file is longer than the 1 GiB that are read.
	Bad       int
	Truncated bool
	Cut       bool
	// Problems says in words what is wrong, at most ten lines of it.
	Problems []string
}

// notMeasuredRow is a NotMeasured in the series.
type notMeasuredRow struct {
	Kind string `json:"kind"`
	NotMeasured
}

// Of picks the observed rows of one type, in their order: Of[*CPURow](s).
func Of[R ObservedRow](s *Series) []R {
	var rows []R
	for _, row := range s.Observed {
		if r, ok := row.(R); ok {
			rows = append(rows, r)
		}
	}
	return rows
}

// Until is the rows that had ended by a time: what was there of a run then.
func (s *Series) Until(tNs int64) Series {
	load := func(rows []LoadRow) []LoadRow {
		return slices.DeleteFunc(slices.Clone(rows), func(r LoadRow) bool { return r.TNs > tNs })
	}
	return Series{
		Load: load(s.Load), Agents: load(s.Agents),
		Observed: slices.DeleteFunc(slices.Clone(s.Observed), func(r ObservedRow) bool { return r.Observed().TNs > tNs }),
	}
}

// readSeries reads rows, one JSON object a line. The error is that of r alone:
// what the lines hold cannot make it fail.
func readSeries(r io.Reader) (Series, error) {
	var s Series
	limited := &io.LimitedReader{R: r, N: seriesMax}
	in := bufio.NewReaderSize(limited, 64<<10)
	for n := 1; ; n++ {
		line, tooLong, err := readLine(in)
		if err != nil && err != io.EOF {
			return s, err
		}
		ended := err == io.EOF
		switch {
		case tooLong:
			s.bad(n, fmt.Errorf("longer than %d bytes", lineMax))
		case len(bytes.TrimSpace(line)) == 0:
		default:
			err := s.take(line)
			switch {
			case err == nil:
			case ended && limited.N > 0:
				s.Truncated = true
				s.problem("line %d, the last one, is cut off: the run was killed while it was written", n)
			case !ended:
				s.bad(n, err)
			}
		}
		if ended {
			break
		}
	}
	if limited.N == 0 {
		// The limit may have been the very end.
		if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
			s.Cut = true
			s.problem("only the first %d bytes were read", seriesMax)
		}
	}
	return s, nil
}

// readLine reads up to and with a newline. Of a line longer than lineMax it
// answers nothing but that.
func readLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if !tooLong {
			if len(line)+len(part) > lineMax {
				line, tooLong = nil, true
			} else {
				line = append(line, part...)
			}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// take reads one row.
func (s *Series) take(line []byte) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	switch row, observed := NewObservedRow(head.Kind); {
	case observed:
		if err := json.Unmarshal(line, row); err != nil {
			return err
		}
		s.Observed = append(s.Observed, row)
	case head.Kind == KindLoad || head.Kind == KindAgent:
		var row LoadRow
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		if row.WidthNs < 0 || row.WidthNs > math.MaxInt64/4 || row.TNs > math.MaxInt64/4 || row.TNs < math.MinInt64/4 {
			return fmt.Errorf("a row of %d ns at %d ns cannot be", row.WidthNs, row.TNs)
		}
		if head.Kind == KindAgent {
			s.Agents = append(s.Agents, row)
		} else {
			s.Load = append(s.Load, row)
		}
	case head.Kind == KindNotMeasured:
		var row notMeasuredRow
		if err := json.Unmarshal(line, &row); err != nil {
			return err
		}
		s.NotMeasured = append(s.NotMeasured, row.NotMeasured)
	case head.Kind == "":
		return errors.New("a row without a kind")
	default:
		s.unknown(head.Kind, line)
	}
	return nil
}

// unknown keeps a row that a newer program, or another one, has written.
func (s *Series) unknown(kind string, line []byte) {
	const kindsMax, kindMax = 100, 64 // a file of noise must not fill the table
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
	if line = bytes.TrimSpace(line); s.rawBytes+len(line) <= rawMax {
		s.rawBytes += len(line)
		s.Raw = append(s.Raw, bytes.Clone(line))
	}
}

func (s *Series) bad(line int, err error) {
	s.Bad++
	s.problem("line %d: %v", line, err)
}

func (s *Series) problem(format string, args ...any) {
	if len(s.Problems) < problemsMax {
		s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
	}
}
