package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Tail reads a run while another process writes it, or one that is finished. It
// writes nothing and belongs to one goroutine.
type Tail struct {
	dir    string
	start  Start
	series *os.File
	rest   []byte // the beginning of a line that is not whole yet
	read   int64
}

// tailStep is how much of a series is read at once: what a quick reader of a
// finished run takes from the memory of its host at a time.
const tailStep = 4 << 20

// OpenTail opens a run that has begun. The error wraps fs.ErrNotExist where
// there is none yet.
func OpenTail(dir string) (*Tail, error) {
	t := &Tail{dir: dir}
	err := readDocument(filepath.Join(dir, specFile), &t.start)
	if errors.Is(err, fs.ErrNotExist) {
		// A record of one document alone.
		var run Run
		if err = readDocument(filepath.Join(dir, resultFile), &run); err == nil {
			t.start = Start{Schema: run.Schema, ID: run.ID, Created: run.Started, Command: run.Command, Spec: run.Spec, Agents: run.Agents}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("follow run: %w", err)
	}
	return t, nil
}

// Start is what was known of the run before its first request.
func (t *Tail) Start() Start { return t.start }

// Next answers the rows that have been written since the last call, at most 4
// MiB of them; more tells that there are more already. A line that is not whole
// yet is left for the next call.
func (t *Tail) Next() (rows Series, more bool, err error) {
	if t.series == nil {
		t.series, err = openRegular(filepath.Join(t.dir, seriesFile))
		if errors.Is(err, fs.ErrNotExist) {
			return Series{}, false, nil
		}
		if err != nil {
			return Series{}, false, fmt.Errorf("follow run: %w", err)
		}
	}
	if t.read >= seriesMax {
		return Series{}, false, nil
	}
	data, err := io.ReadAll(io.LimitReader(t.series, tailStep))
	if err != nil {
		return Series{}, false, fmt.Errorf("follow run: read %s: %w", seriesFile, err)
	}
	t.read += int64(len(data))
	whole := bytes.LastIndexByte(data, '\n') + 1
	if whole == 0 {
		t.rest = append(t.rest, data...)
		if len(t.rest) > lineMax { // a line that no row is: what follows it is read again
			t.rest = t.rest[:1]
		}
		return Series{}, len(data) == tailStep, nil
	}
	lines := append(t.rest, data[:whole]...)
	t.rest = bytes.Clone(data[whole:])
	rows, err = readSeries(bytes.NewReader(lines))
	return rows, len(data) == tailStep, err
}

// Result is the run's document once it is there; nil until then.
func (t *Tail) Result() (*Run, error) {
	run := new(Run)
	err := readDocument(filepath.Join(t.dir, resultFile), run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("follow run: %w", err)
	}
	return run, nil
}

// Close ends the reading.
func (t *Tail) Close() error {
	if t.series == nil {
		return nil
	}
	return t.series.Close()
}

// RunsOf is the directory of a plan's runs, a Store.
func RunsOf(plan string) Store { return Store{Dir: filepath.Join(plan, runsDir)} }

// Names are the runs of a store by name, the oldest first. It reads no run.
func (s Store) Names() ([]string, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := len(names) - 1; i >= 0; i-- {
		if IsID(names[i]) {
			ids = append(ids, names[i])
		}
	}
	return ids, nil
}
