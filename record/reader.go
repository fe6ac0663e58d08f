package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// documentMax bounds a JSON document: a spec of spec.BodiesMax of bodies in
// base64, each with a URL and a head, stays below.
const documentMax = 256 << 20

// Open reads a run from its directory, the result of a finished one, and what
// the other files tell of one that was killed (Run.Unfinished). It writes
// nothing.
//
// A series that is damaged is read as far as it goes (see Series). The error is
// of one line: the directory is no run, a document is damaged or too large, or
// a newer program has written it.
func Open(dir string) (*Run, Series, error) {
	if !isRun(dir) {
		return nil, Series{}, fmt.Errorf("open run: %s holds neither %s nor %s", dir, resultFile, specFile)
	}
	series, err := openSeries(filepath.Join(dir, seriesFile))
	if err != nil {
		return nil, Series{}, fmt.Errorf("open run: %w", err)
	}
	run := new(Run)
	err = readDocument(filepath.Join(dir, resultFile), run)
	if errors.Is(err, fs.ErrNotExist) {
		run, err = unfinished(dir, &series)
	}
	if err != nil {
		return nil, Series{}, fmt.Errorf("open run: %w", err)
	}
	return run, series, nil
}

// openSeries reads the series; one that is not there is empty.
func openSeries(path string) (Series, error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Series{}, nil
	}
	if err != nil {
		return Series{}, err
	}
	defer f.Close()
	s, err := readSeries(f)
	if err != nil {
		return Series{}, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}

// openRegular opens a file, but nothing that could make a reader wait.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	return os.Open(path)
}

func readAll(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, documentMax+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > documentMax {
		return nil, fmt.Errorf("read %s: more than %d bytes", path, documentMax)
	}
	return data, nil
}

// readDocument reads a document of a run.
func readDocument(path string, v any) error { return readSchema(path, Schema, v) }

// unfinished puts a Run together from what a killed one has left.
func unfinished(dir string, series *Series) (*Run, error) {
	var start Start
	if err := readDocument(filepath.Join(dir, specFile), &start); err != nil {
		return nil, err
	}
	run := &Run{
		Schema:     Schema,
		ID:         start.ID,
		Started:    start.Created,
		Command:    start.Command,
		Target:     start.target(),
		Spec:       start.Spec,
		Unfinished: true,
		Statuses:   map[string]uint64{},
		Errors:     []Error{},
		Exit:       4,
	}
	run.Generator = Generator{RunDelay: -1, Workers: []Worker{}}
	run.fromRows(series.Load)
	run.Verdict = Verdict{
		Outcome: Invalid, Ceiling: Inconclusive, Because: run.Killed(), Next: KilledNext,
		Evidence: []Evidence{}, Doubts: []string{},
	}
	run.agentsFromRows(start.Agents, series.Agents)
	missing := func(what, why string) {
		run.NotMeasured = append(run.NotMeasured, NotMeasured{What: what, Why: why})
	}
	const killed = "no result was written"
	missing("latency", killed+"; quantiles of intervals cannot be merged into those of the run")
	missing("statuses", killed+"; the series counts those of 400 and more only, as status errors")
	missing("errors by cause", killed+"; the series counts failures without their causes")
	missing("generator", killed)
	missing("engine and threads", killed+"; what is given is what was asked")
	if len(series.Load) == 0 {
		missing("load", "the series has no row of the generator")
	}
	if err := readEnvironmentFile(dir, &run.Environment); err != nil {
		missing("environment", err.Error())
	}
	if len(series.Problems) > 0 {
		run.NotMeasured = append(run.NotMeasured, NotMeasured{What: "series", Why: strings.Join(series.Problems, "; "), Part: true})
	}
	run.NotMeasured = append(run.NotMeasured, series.NotMeasured...)
	return run, nil
}

// KilledNext is what to do about a run that was killed.
const KilledNext = "rerun"

// Killed says of an unfinished run what its figures cover.
func (r *Run) Killed() string {
	of := ""
	if r.Spec.Duration > 0 {
		of = fmt.Sprintf(" of %.3g s", r.Spec.Duration.Seconds())
	}
	return fmt.Sprintf("the run was killed before it finished, or its disk was full; its figures cover %.3g s%s", r.ElapsedS, of)
}

func readEnvironmentFile(dir string, env *Environment) error {
	path := filepath.Join(dir, environmentFile)
	data, err := readAll(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, env); err != nil {
		*env = Environment{} // Unmarshal may have filled half of it
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// agentsFromRows is what each agent's own rows add up to. Those that no document
// names are known by their rows.
func (r *Run) agentsFromRows(known []Agent, rows []LoadRow) {
	by := map[string][]LoadRow{}
	for _, row := range rows {
		by[row.Host] = append(by[row.Host], row)
	}
	r.Agents = slices.Clone(known)
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if r.Agent(name) == nil {
			r.Agents = append(r.Agents, Agent{Name: name, Loads: true})
		}
	}
	for i := range r.Agents {
		a := &r.Agents[i]
		a.Generator = Generator{RunDelay: -1}
		if !a.Loads {
			continue
		}
		own := Run{Spec: r.Spec}
		own.fromRows(by[a.Name])
		a.Load.Established, a.Load.Mode, a.Load.Pipelining = own.Load.Established, own.Load.Mode, own.Load.Pipelining
		a.ElapsedS, a.Requests, a.Rate, a.Bytes, a.Errors = own.ElapsedS, own.Requests, own.Rate, own.Bytes, own.Errors
	}
}

// fromRows fills in what the generator's intervals add up to.
func (r *Run) fromRows(rows []LoadRow) {
	r.Load = Load{
		Connections: r.Spec.Connections,
		Threads:     r.Spec.Threads,
		Pipelining:  r.Spec.Pipelining,
		Mode:        "closed",
		Engine:      r.Spec.Engine,
		Arrivals:    r.Spec.Arrivals,
	}
	if r.Spec.Open() {
		r.Load.Mode, r.Load.AskedPerS = "open", r.Spec.Rate.PerSecond()
	}
	var bad, sent uint64
	var warmupNs, elapsedNs float64
	first := true
	for i := range rows {
		row := &rows[i]
		if row.Warmup {
			warmupNs += float64(row.WidthNs)
			// What is in flight when the window opens is carried into it.
			r.Requests.Carried, r.Load.Established = row.InFlight, row.Connected
			first = false
			continue
		}
		if first {
			r.Load.Established, first = row.Connected, false
		}
		elapsedNs += float64(row.WidthNs)
		sent += row.Sent
		bad += row.Bad
		r.Requests.Completed += row.Completed
		r.Requests.Failed += row.Failed
		r.Requests.InFlight = row.InFlight
		r.Requests.Unsent = row.Behind
		r.Bytes.Read += row.Read
		r.Bytes.Written += row.Written
	}
	if elapsedNs == 0 { // killed in the warm-up: no window, nothing carried into it
		r.Requests.Carried = 0
	}
	r.Requests.Sent = r.Requests.Carried + sent
	if bad > 0 {
		r.Errors = append(r.Errors, Error{Phase: PhaseStatus, Cause: "400 or more", Count: bad})
	}
	r.WarmupS, r.ElapsedS = warmupNs/float64(time.Second), elapsedNs/float64(time.Second)
	if elapsedNs > 0 {
		r.Rate.CompletedPerS = float64(r.Requests.Completed) / r.ElapsedS
		r.Rate.SentPerS = float64(sent) / r.ElapsedS
	}
	r.Rate.Spread = SpreadOf(rows)
}
