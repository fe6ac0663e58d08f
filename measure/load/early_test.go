//go:build linux

package load

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"ceiling/internal/faultserver"
	"ceiling/internal/hist"
	"ceiling/internal/needs"
)

// The time to the first byte is the service time where a response comes in one piece, and is measured
// where it does not: the server waits between the two, so that the difference is known.
func TestFirstByte(t *testing.T) {
	needs.Engine(t)
	const pause = 20 * time.Millisecond
	wait := func(*faultserver.Conn) error { time.Sleep(pause); return nil }
	head, body := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfo", "ur"
	eachAtOnce(t, func(t *testing.T, engine string) {
		whole := runs(t, config(t, serve(t, faultserver.Every(faultserver.Answer(faultserver.OK("x")))), engine, 100))
		if n := whole.Total.Early.FirstByte.Count(); n != 0 {
			t.Errorf("%d times to the first byte, and all responses came in one piece", n)
		}
		parted := faultserver.Loop(faultserver.Request(1), faultserver.Write(head), wait, faultserver.Write(body))
		mixed := faultserver.Loop(faultserver.AnswerTimes(1, faultserver.OK("x")), parted)
		for name, script := range map[string]faultserver.Step{"parted": parted, "mixed": mixed} {
			cfg := config(t, serve(t, faultserver.Every(script)), engine, 40)
			total := &runs(t, cfg).Total
			first, service := &total.Early.FirstByte, &total.Service
			if first.Count() != 40 || service.Count() != 40 {
				t.Fatalf("%s: %d and %d times of 40", name, first.Count(), service.Count())
			}
			slow := service.Count() - service.CountAtMost(int64(pause)-1)
			if gap := time.Duration(service.Sum() - first.Sum()); gap < time.Duration(slow)*pause*9/10 {
				t.Errorf("%s: the bodies ended %v after their first bytes, in sum, with %d pauses of %v", name, gap, slow, pause)
			}
		}
	})
}

// A tally without times to the first byte has those of its service times, in every order of merging.
func TestFirstBytesMerge(t *testing.T) {
	t.Parallel()
	make := func(parted bool, times ...int64) *Tally {
		k := newTally(1)
		for _, ns := range times {
			first := ns
			if parted {
				first = ns / 2
			}
			k.Early.took(&k.Service, ns, first, 1)
		}
		return k
	}
	sum := func(h *hist.Hist) uint64 { return h.Sum() }
	for _, order := range [][]*Tally{
		{make(false, 10, 20), make(true, 30, 40), make(false, 50)},
		{make(true, 30, 40), make(false, 50), make(false, 10, 20)},
		{make(false), make(false, 50), make(true, 30, 40), make(false, 10, 20)},
	} {
		all := newTally(1)
		for _, k := range order {
			all.count(k)
		}
		if all.Early.FirstByte.Count() != 5 || sum(&all.Early.FirstByte) != 10+20+15+20+50 || sum(&all.Service) != 150 {
			t.Errorf("%d first bytes, %d in sum; %d of service", all.Early.FirstByte.Count(), sum(&all.Early.FirstByte), sum(&all.Service))
		}
	}
	k := make(false, 10)
	k.Early.took(&k.Service, 40, 20, 1)
	if k.Early.FirstByte.Count() != 2 || sum(&k.Early.FirstByte) != 30 {
		t.Errorf("within a tally: %d, %d in sum", k.Early.FirstByte.Count(), sum(&k.Early.FirstByte))
	}
}

// A stream of events that ends is a response like any other; its events are counted, however they are
// cut, and the first is timed.
func TestEventsThatEnd(t *testing.T) {
	needs.Engine(t)
	events := "data: one\n\ndata: two\ndata: more\r\n\r\n: a comment\n\ndata: [DONE]\n\n"
	chunk := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(events[:7]) + chunk(events[7:33]) + chunk(events[33:]) + "0\r\n\r\n"
	long := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(events), events)
	eachAtOnce(t, func(t *testing.T, engine string) {
		for name, k := range map[string]struct {
			steps      []faultserver.Step
			pipelining int
			events     uint64 // of each response
		}{
			"at once":        {[]faultserver.Step{faultserver.Answer(chunked)}, 1, 3},
			"many at once":   {[]faultserver.Step{faultserver.Answer(chunked)}, 8, 3},
			"with a length":  {[]faultserver.Step{faultserver.Answer(long)}, 8, 3},
			"byte by byte":   {[]faultserver.Step{faultserver.Loop(faultserver.Request(1), faultserver.Drip(chunked, 1))}, 1, 3},
			"none":           {[]faultserver.Step{faultserver.Answer(head + "Content-Length: 0\r\n\r\n")}, 8, 0},
			"without an end": {[]faultserver.Step{faultserver.Request(1), faultserver.Write(head + "Connection: close\r\n\r\n" + events), faultserver.Close()}, 1, 3},
		} {
			t.Run(name, func(t *testing.T) {
				cfg := config(t, serve(t, faultserver.Every(k.steps...)), engine, 60)
				cfg.Pipelining, cfg.Expect.Checks = k.pipelining, conditions(t, "body not contains three")
				total := &runs(t, cfg).Total
				if total.Completed != 60 || total.Failed != 0 || total.Bad != 0 || total.Early.Events != 60*k.events {
					t.Errorf("%d completed, %d failed, %d bad, %d events, %v", total.Completed, total.Failed, total.Bad, total.Early.Events, total.Faults)
				}
				if total.Early.FirstEvent.Count() != total.Early.Responses {
					t.Errorf("%d first events of %d responses", total.Early.FirstEvent.Count(), total.Early.Responses)
				}
			})
		}
	})
}

// So over HTTP/2.
func TestEventsOverHTTP2(t *testing.T) {
	needs.Engine(t)
	const pause = 20 * time.Millisecond
	answer := func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for i := range 5 {
			_, _ = fmt.Fprintf(out, "data: {\"token\":%d}\n\n", i)
			_ = http.NewResponseController(out).Flush()
			time.Sleep(pause / 4)
		}
		_, _ = io.WriteString(out, "data: [DONE]\n\n")
	}
	eachAtOnce(t, func(t *testing.T, engine string) {
		total := &runs(t, newGoServer(t, true, nil, answer).config(t, engine, 100, 8)).Total
		first, gap := &total.Early.FirstEvent, float64(pause)*9/10
		if total.Completed != 100 || total.Early.Events != 600 || first.Count() != 100 || total.Service.Mean()-first.Mean() < gap ||
			total.Service.Mean()-total.Early.FirstByte.Mean() < gap {
			t.Errorf("%d completed, %d events, first byte %v, first event %v, end %v", total.Completed, total.Early.Events,
				time.Duration(total.Early.FirstByte.Mean()), time.Duration(first.Mean()), time.Duration(total.Service.Mean()))
		}
	})
}
