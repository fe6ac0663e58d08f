package verdict

import (
	"math"
	"strings"
	"testing"

	"ceiling/record"
)

// bursts makes rows in which each place has its share of the time of 64
// connections, or of some of them.
func bursts(n int, followed, covered float64, shares map[string]float64) *record.Series {
	series := new(record.Series)
	const width = 10_000_000
	for i := range n {
		row := &record.TimesRow{
			ObservedHead: record.ObservedHead{Kind: record.KindTimes, TNs: int64(i+1) * 500_000_000, WidthNs: width},
			Followed:     followed, Connections: int(64 * followed), Requests: 1000,
		}
		row.KnownNs = int64(64 * followed * covered * width)
		for place, share := range shares {
			row.Places = append(row.Places, record.PlaceTime{Place: place, Ns: int64(share * float64(row.KnownNs))})
		}
		series.Observed.Add(row)
	}
	return series
}

// sampled adds samples of sockets that say something else.
func sampledToo(series *record.Series) *record.Series {
	for i := range 50 {
		series.Observed.Add(&record.SocketsRow{
			ObservedHead: record.ObservedHead{Kind: record.KindSockets, TNs: int64(i+1) * 100_000_000},
			Client:       record.EndQueues{Sockets: 64, Unread: 50, UnreadBytes: 50 * 130},
			Server:       record.EndQueues{Sockets: 64},
		})
	}
	return series
}

func shareOf(v *record.Verdict, name string) float64 {
	for _, s := range v.Stations {
		if s.Name == name {
			return s.Share
		}
	}
	return math.NaN()
}

func TestEventsSpeakWhereTheyAccountForTheRun(t *testing.T) {
	truth := map[string]float64{
		record.PlaceToServer: 0.02, record.PlaceAtServer: 0.7, record.PlaceInServer: 0.1,
		record.PlaceToClient: 0.03, record.PlaceAtClient: 0.05, record.PlaceGenerator: 0.1,
	}
	check := func(name string, run *record.Run, series *record.Series, by string, of int, queue float64) {
		t.Helper()
		v := Judge(run, sampledToo(series))
		if v.StationsBy != by || v.StationsOf != of {
			t.Errorf("%s: stations by %d %s, want %d %s", name, v.StationsOf, v.StationsBy, of, by)
		}
		if got := shareOf(&v, "server receive queue"); math.Abs(got-queue) > 0.005 {
			t.Errorf("%s: server receive queue %.3f, want %.3f", name, got, queue)
		}
	}
	check("all connections", closedRun(), bursts(10, 1, 1, truth), record.ByKernelEvents, 10, 0.7)
	check("an eighth of them", closedRun(), bursts(10, 0.125, 1, truth), record.ByKernelEvents, 10, 0.7)
	check("half of the time silent", closedRun(), bursts(10, 1, 0.5, truth), record.BySocketSamples, 50, 0)
	check("another's connections too", closedRun(), bursts(10, 1, 1.5, truth), record.BySocketSamples, 50, 0)
	check("too few bursts", closedRun(), bursts(4, 1, 1, truth), record.BySocketSamples, 50, 0)
	agents := closedRun()
	agents.Agents = []record.Agent{{Name: "a", Load: agents.Load}, {Name: "b", Load: agents.Load}}
	if v := Judge(agents, bursts(10, 1, 1, truth)); v.StationsBy == record.ByKernelEvents {
		t.Error("the bursts of one host speak for agents on two")
	}
}

// In an open loop a connection between two requests is in no place: the shares
// are of the requests in flight, 20,000/s × 640 µs = 12.8.
func TestEventsOfAnOpenLoop(t *testing.T) {
	busy := 12.8 / 64
	v := Judge(openRun(), bursts(10, 1, 1, map[string]float64{
		record.PlaceToServer: 0.1 * busy, record.PlaceAtServer: 0.2 * busy, record.PlaceInServer: 0.6 * busy,
		record.PlaceToClient: 0.05 * busy, record.PlaceAtClient: 0.05 * busy, record.PlaceGenerator: 1 - busy,
	}))
	if v.StationsBy != record.ByKernelEvents {
		t.Fatalf("stations by %q", v.StationsBy)
	}
	// The generator has a request in hand for a batch of 1 µs: 0.02 requests.
	if got := shareOf(&v, "server"); math.Abs(got-0.6*12.8/12.82) > 0.001 {
		t.Errorf("in the server %.4f", got)
	}
	idle := bursts(10, 1, 1, map[string]float64{record.PlaceInServer: 0.01, record.PlaceGenerator: 0.99})
	if v := Judge(openRun(), idle); v.StationsBy == record.ByKernelEvents {
		t.Error("bursts speak that saw 0.64 of 12.8 requests in flight")
	}
}

// With 16 in flight on each connection the bytes in a place make the requests
// there: requests of 60 bytes, answers of 130.
func TestEventsOfPipelinedConnections(t *testing.T) {
	run := closedRun()
	run.Spec.Pipelining, run.Load.Pipelining = 16, 16
	run.Requests.Sent, run.Requests.InFlightAtStart, run.Requests.InFlight = 1_001_024, 1024, 1024
	series := new(record.Series)
	const width = 10_000_000
	for i := range 10 {
		series.Observed.Add(&record.TimesRow{
			ObservedHead: record.ObservedHead{Kind: record.KindTimes, TNs: int64(i+1) * 500_000_000, WidthNs: width},
			Pipelined:    true, Followed: 0.25, Connections: 16, Requests: 1000, KnownNs: 16 * width,
			Places: []record.PlaceTime{
				{Place: record.PlaceAtServer, ByteNs: 16 * width * 60 * 8},   // 8 of 16
				{Place: record.PlaceAtClient, ByteNs: 16 * width * 130 * 2},  // 2
				{Place: record.PlaceGenerator, ByteNs: 16 * width * 130 * 1}, // 1
			},
		})
	}
	v := Judge(run, series)
	for name, want := range map[string]float64{"server receive queue": 0.5, "server": 5. / 16, "generator receive queue": 2. / 16,
		"generator": 1. / 16, "network to server": 0} {
		if got := shareOf(&v, name); math.Abs(got-want) > 0.001 {
			t.Errorf("%s %.4f, want %.4f (by %s)", name, got, want, v.StationsBy)
		}
	}
}

// The record says which source the stations are by, and what the other one has: a caveat where they
// are further apart than their errors explain.
func TestStationsNameTheirSource(t *testing.T) {
	truth := map[string]float64{record.PlaceAtServer: 0.7, record.PlaceInServer: 0.3}
	w := watched(640_000, .5) // with socket samples in which nothing is unread
	for _, row := range bursts(10, 1, 1, truth).Observed.Times {
		row.Host = "h"
		w.series.Observed.Add(row)
	}
	text := sayings(w.judge())
	for _, says := range []string{"where the time goes is by kernel events", "not by socket samples", "the two sources for where the time goes differ"} {
		if !strings.Contains(text, says) {
			t.Errorf("lacks %q: %s", says, text)
		}
	}
	w.series.Observed.Times = nil
	if text := sayings(w.judge()); strings.Contains(text, "where the time goes is by") {
		t.Errorf("one source: %s", text)
	}
}

// A response is at the generator for as long as its batch, and the longest batches have most of
// them.
func TestTimeAtTheGenerator(t *testing.T) {
	run := closedRun()
	run.Generator.BatchMeanNs, run.Generator.HandlingMeanNs = 2_400, 64_000
	series := bursts(10, 1, 1, nil)
	series.Observed.Times = nil
	v := Judge(run, series)
	want := run.Rate.CompletedPerS * 64e-6 / 64
	if got := shareOf(&v, record.PlaceGenerator); math.Abs(got-want) > .001 {
		t.Errorf("%.4f of the time at the generator, want %.4f", got, want)
	}
}
