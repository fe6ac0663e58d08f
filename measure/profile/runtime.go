package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/exp/trace"

	"ceiling/record"
)

// memory is the garbage collector's state at one moment, from the text form of the heap profile
// (runtime.MemStats).
type memory struct {
	collections int64
	pauses      []int64 // a ring: that of collection n is at (n+255)%256
	cpuShare    float64
}

// Memory has that of all processes.
type Memory map[string]memory

// Memory reads it.
func (g *Group) Memory(ctx context.Context) (Memory, error) {
	out := Memory{}
	var mu sync.Mutex
	err := g.each(ctx, "heap?debug=1", answerTimeout, func(_ int, name string, b []byte) error {
		m, err := parseMemory(b)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		out[name] = m
		return nil
	})
	return out, err
}

// pausesOf is the length of the ring of pauses (runtime.MemStats.PauseNs).
const pausesOf = 256

func parseMemory(b []byte) (memory, error) {
	var m memory
	found := 0
	for line := range bytes.Lines(b) {
		name, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(string(line), "# ")), " = ")
		if !ok || !bytes.HasPrefix(line, []byte("# ")) {
			continue
		}
		var err error
		switch name {
		case "PauseNs":
			for text := range strings.FieldsSeq(strings.Trim(value, "[]")) {
				n, parseErr := strconv.ParseInt(text, 10, 64)
				m.pauses, err = append(m.pauses, n), errors.Join(err, parseErr)
			}
		case "NumGC":
			m.collections, err = strconv.ParseInt(value, 10, 64)
		case "GCCPUFraction":
			m.cpuShare, err = strconv.ParseFloat(value, 64)
			if math.IsNaN(m.cpuShare) || m.cpuShare < 0 || m.cpuShare > 1 {
				m.cpuShare = 0
			}
		default:
			continue
		}
		if err != nil {
			return m, fmt.Errorf("heap profile: %s is %.40q", name, value)
		}
		found++
	}
	if found != 3 || len(m.pauses) != pausesOf || m.collections < 0 {
		return m, errors.New("the heap profile does not say what the garbage collector did")
	}
	return m, nil
}

// Since returns what the collector did between two moments; nil if no process is in both.
func (m Memory) Since(before Memory) *record.GoGC {
	var gc record.GoGC
	var pauses []int64
	for name, b := range m {
		a, there := before[name]
		if !there || b.collections < a.collections {
			continue
		}
		gc.Processes++
		n := b.collections - a.collections
		gc.Collections += n
		gc.CPUShare = max(gc.CPUShare, b.cpuShare)
		for i := range min(n, pausesOf) {
			pauses = append(pauses, b.pauses[(b.collections-i+pausesOf-1)%pausesOf])
		}
	}
	if gc.Processes == 0 {
		return nil
	}
	slices.Sort(pauses)
	gc.Pauses = int64(len(pauses))
	for _, ns := range pauses {
		gc.PauseNs += ns
	}
	gc.P50Ns, gc.MaxNs = quantile(pauses, .5), quantile(pauses, 1)
	return &gc
}

// quantile of sorted values; 0 if there are none.
func quantile(sorted []int64, q float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(math.Ceil(q*float64(len(sorted))))-1, len(sorted)-1)]
}

// waitsMax bounds the goroutine waits kept: 16 MB.
const waitsMax = 2 << 20

// Latency traces all processes for d and measures how long runnable goroutines waited for a thread.
func (g *Group) Latency(ctx context.Context, d time.Duration) (*record.GoScheduler, error) {
	var mu sync.Mutex
	var all []int64
	err := g.each(ctx, fmt.Sprintf("trace?seconds=%g", d.Seconds()), d+answerTimeout+5*time.Second, func(_ int, _ string, b []byte) error {
		waits, err := schedulerWaits(bytes.NewReader(b))
		mu.Lock()
		defer mu.Unlock()
		all = append(all, waits[:min(len(waits), waitsMax-len(all))]...)
		return err
	})
	if len(all) == 0 {
		return nil, err
	}
	slices.Sort(all)
	return &record.GoScheduler{TraceNs: int64(d), Waits: int64(len(all)), P50Ns: quantile(all, .5), P99Ns: quantile(all, .99),
		MaxNs: quantile(all, 1)}, err
}

// schedulerWaits reads an execution trace: the times from runnable to running.
func schedulerWaits(r io.Reader) (waits []int64, err error) {
	// The reader is made for traces of Go's own tools; other input may make it panic.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read execution trace: %v", p)
		}
	}()
	events, err := trace.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("read execution trace: %w", err)
	}
	since := map[trace.GoID]trace.Time{}
	for len(waits) < waitsMax {
		e, err := events.ReadEvent()
		if errors.Is(err, io.EOF) {
			return waits, nil
		}
		if err != nil {
			return waits, fmt.Errorf("read execution trace: %w", err)
		}
		if e.Kind() != trace.EventStateTransition {
			continue
		}
		s := e.StateTransition()
		if s.Resource.Kind != trace.ResourceGoroutine {
			continue
		}
		id := s.Resource.Goroutine()
		from, to := s.Goroutine()
		if at, known := since[id]; known && from == trace.GoRunnable {
			if to == trace.GoRunning {
				waits = append(waits, int64(e.Time()-at))
			}
			delete(since, id)
		}
		// A goroutine that was runnable at the start of the trace comes from undetermined.
		if to == trace.GoRunnable && from != trace.GoUndetermined {
			since[id] = e.Time()
		}
	}
	return waits, nil
}
