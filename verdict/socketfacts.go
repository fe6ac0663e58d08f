package verdict

import (
	"math"
	"slices"
	"sort"

	"ceiling/experiment/spec"
	"ceiling/record"
)

// Stations of a request, in the order in which it meets them.
const (
	inGenerator    = iota // being sent, or its answer being handled
	wayIn                 // written by the generator, not yet with the server's kernel
	serverQueue           // unread in the server's socket
	inServer              // in nobody's socket: inside the server
	wayBack               // written by the server, not yet with the generator's kernel
	generatorQueue        // answer unread in the generator's socket
	stations
)

// occupancy is how many requests were at each station, as one source saw it.
// By Little's law a share of the requests in flight is that share of a request's
// time.
type occupancy struct {
	by string // record.ByKernelEvents or record.BySocketSamples
	// samples are the requests at each station, one row a sample, flight the
	// requests in flight then, and weight how much it saw: the moments of a row of
	// socket samples, the length of a burst of events.
	samples [][stations]float64
	flight  []float64
	weight  []float64
	// moments at which sockets were looked at, over all samples, or bursts.
	moments int
	share   [stations]float64
	// low and high are the bounds of each share: about 95 %.
	low, high [stations]float64
}

// add takes in a sample.
func (o *occupancy) add(at [stations]float64, flight, weight float64) {
	o.samples, o.flight, o.weight = append(o.samples, at), append(o.flight, flight), append(o.weight, weight)
}

// settle works the shares out.
func (o *occupancy) settle() {
	for s := range stations {
		o.share[s], o.low[s], o.high[s] = o.batchMeans(s)
	}
}

// error is half the widest interval.
func (o *occupancy) error() float64 {
	widest := 0.0
	for s := range stations {
		widest = math.Max(widest, o.high[s]-o.low[s])
	}
	return widest / 2
}

// placeFacts is where the requests were.
type placeFacts struct {
	occupancy
	known bool
	both  bool // the server's end was seen too
	// rtt is the round trip without the server's own time, ns; base the
	// shortest seen.
	rtt, base figure
	retrans   figure // share of the server's segments that were sent again
	rwnd      figure // share of its sending time that the receiver's window held up
}

// placesOf counts the requests at each station, sample by sample.
func placesOf(f *facts, series *record.Series, rows []*record.SocketsRow, load []record.LoadRow) placeFacts {
	p := placeFacts{occupancy: occupancy{by: record.BySocketSamples}}
	if f.run.Spec.Kind == spec.Events {
		return p // there are no requests
	}
	p.trips(f.cpuFacts, series)
	for _, row := range rows {
		if row.Client.Sockets <= 0 && row.Client.Connecting <= 0 {
			continue
		}
		flight := f.flightAt(load, row.TNs)
		if flight <= 0 {
			continue
		}
		p.both = p.both || row.Server.Sockets > 0
		p.add(f.placed(row, flight, p.rtt, p.base), flight, float64(max(row.Moments, 1)))
		p.moments += max(row.Moments, 1)
	}
	if p.known = len(p.samples) >= placesFewest; p.known {
		p.settle()
	}
	if events, ok := fromEvents(f.cpuFacts, series, load); ok && (!p.known || events.error() <= eventsSure || events.error() <= p.error()) {
		p.occupancy, p.known, p.both = events, true, true
	}
	p.both = p.both && p.known
	return p
}

// missing says why the shares of both ends are not known.
func (p *placeFacts) missing() record.Statement {
	return say("missing.places", with{"samples": len(p.samples), "least": placesFewest, "one_end": p.known})
}

// flightAt is how many requests are in flight at a time: the slots of a closed
// loop, the next load row of an open one.
func (f *generatorSide) flightAt(load []record.LoadRow, tNs int64) float64 {
	if !f.open {
		return f.slotsAt(tNs)
	}
	if len(load) == 0 {
		return 0
	}
	i := sort.Search(len(load), func(i int) bool { return load[i].TNs >= tNs })
	if i == len(load) {
		i--
	}
	// Between two rows the number is taken to change evenly.
	at := float64(load[i].InFlight)
	if i > 0 && load[i].TNs > load[i-1].TNs && tNs < load[i].TNs {
		share := float64(load[i].TNs-tNs) / float64(load[i].TNs-load[i-1].TNs)
		at = at*(1-share) + float64(load[i-1].InFlight)*share
	}
	return at
}

// requestsIn turns sockets with bytes into requests: at least one for each
// socket, as many as the bytes make up, at most the pipeline of each.
func (f *runFacts) requestsIn(sockets, bytes float64, each figure) float64 {
	n := math.Max(sockets, 0)
	if pipelining := float64(f.run.Load.Pipelining); pipelining > 1 && each.known && each.value > 0 {
		n = math.Min(math.Max(bytes/each.value, n), n*pipelining)
	}
	return n
}

// placed shares out the requests in flight at one sample. Unread bytes are
// certain, and so is what is on the way where both ends of a connection were
// looked at: TCP counts at either end how far it has come.
func (f *facts) placed(row *record.SocketsRow, flight float64, rtt, base figure) (at [stations]float64) {
	at[generatorQueue] = f.requestsIn(row.Client.Unread, row.Client.UnreadBytes, f.responseBytes)
	at[serverQueue] = f.requestsIn(row.Server.Unread, row.Server.UnreadBytes, f.requestBytes)
	at[inGenerator] = f.inGenerator()
	if row.ToServer.Pairs > 0 && row.ToClient.Pairs > 0 {
		at[wayIn] = f.requestsIn(row.ToServer.Connections, row.ToServer.Bytes, f.requestBytes)
		at[wayBack] = f.requestsIn(row.ToClient.Connections, row.ToClient.Bytes, f.responseBytes)
	} else {
		at[wayIn], at[wayBack] = f.onTheWay(row, at[serverQueue], at[generatorQueue], rtt, base)
	}
	if f.delayed.is { // the rest lies with the server's kernel, for want of an acknowledgement
		at[wayIn], at[wayBack] = math.Min(at[wayIn], f.rate*base.value/1e9), math.Min(at[wayBack], f.rate*base.value/1e9)
	}
	at[wayIn] += math.Max(float64(row.Client.Connecting), 0)
	sum := 0.0
	for s := range at {
		sum += at[s]
	}
	if sum > flight { // both ends are not read at one instant
		for s := range at {
			at[s] *= flight / sum
		}
		sum = flight
	}
	at[inServer] = flight - sum
	return at
}

// onTheWay guesses what is on the way from what is not acknowledged, where the
// two ends are on different hosts. An acknowledgement may be put off until the
// next segment goes the same way (net/ipv4/tcp_output.c, tcp_send_delayed_ack:
// up to 40 ms), so a request that the server is working on looks unacknowledged
// too, and so does an answer that lies unread. The way back is therefore what is
// unacknowledged and not unread, and the way in no more than the round trip
// accounts for. In an open loop the generator has no next request to acknowledge
// an answer with, so what has been answered looks to be on its way back; there
// the round trip bounds both.
func (f *pathFacts) onTheWay(row *record.SocketsRow, unreadThere, unreadHere float64, rtt, base figure) (in, back float64) {
	back = math.Max(f.requestsIn(row.Server.Unacked, row.Server.UnackedBytes, f.responseBytes)-unreadHere, 0)
	shortest, longest := f.rate*base.value/1e9, f.rate*rtt.value/1e9
	if f.onLoopback() && !f.link.shaper.holds() {
		back, longest = math.Min(back, shortest), shortest
	}
	if f.open && f.responseBytes.value < largeRequest {
		back = math.Min(back, shortest)
	}
	if !f.open {
		// The next request brings the acknowledgement, so what is unacknowledged
		// at the server is one way or the other: half of the path each.
		in = math.Min(shortest, back) / 2
		back -= in
	}
	out := math.Max(f.requestsIn(row.Client.Unacked, row.Client.UnackedBytes, f.requestBytes)-unreadThere, 0)
	switch {
	case f.requestBytes.known && f.requestBytes.value >= largeRequest:
		in = out
	case rtt.known:
		in = math.Max(in, math.Min(out, math.Max(longest-back, 0)))
	}
	return in, back
}

// inGenerator is how many requests the generator has in hand: each waits for
// the batch it came with.
func (f *generatorSide) inGenerator() float64 {
	if len(f.agents) > 0 {
		sum := 0.0
		for _, a := range f.agents {
			sum += a.inGenerator()
		}
		return sum
	}
	return f.rate * positive(f.run.Generator.BatchMeanNs) / 1e9
}

// trips reads the round-trip times. The server's own are used: the generator
// acknowledges an answer with its next request, at once, while the server may
// put its acknowledgement off for as long as it works.
func (p *placeFacts) trips(f *cpuFacts, series *record.Series) {
	var rtts []float64
	var retrans, sent, busyNs, rwndNs float64
	rows := ours(f, series.Observed.TCPInfo)
	if len(rows) == 0 { // a dear source, so it is read seldom: the last one of the warm-up then
		if before := setup(f, series.Observed.TCPInfo); len(before) > 0 && before[len(before)-1].TNs > -int64(positive(f.run.WarmupS)*1e9) {
			rows = before[len(before)-1:]
		}
	}
	for _, row := range rows {
		end := &row.Server
		if end.Sockets <= 0 {
			continue
		}
		if end.RTTp50Us > 0 {
			rtts = append(rtts, float64(end.RTTp50Us)*1e3)
		}
		if b := float64(end.RTTMinUs) * 1e3; b > 0 && (!p.base.known || b < p.base.value) {
			p.base = some(b)
		}
		retrans += math.Max(float64(end.RetransSegs), 0)
		sent += math.Max(float64(end.SentSegs), 0)
		busyNs += math.Max(float64(end.BusyNs), 0)
		rwndNs += math.Max(float64(end.RwndNs), 0)
	}
	if len(rtts) > 0 {
		slices.Sort(rtts)
		p.rtt = some(rtts[len(rtts)/2])
	}
	if sent > 0 {
		p.retrans = some(math.Min(retrans/sent, 1))
	}
	if busyNs > 0 {
		p.rwnd = some(math.Min(rwndNs/busyNs, 1))
	}
}

// batchMeans is the share of one station over all samples with its interval.
// Samples that follow each other are alike, so the run is cut into batches and
// the interval is that of their means (Law & Kelton, ch. 9): Student's t for
// n−1 of them.
func (o *occupancy) batchMeans(station int) (mean, low, high float64) {
	ratio := func(from, to int) float64 {
		here, all := 0.0, 0.0
		for i := from; i < to; i++ {
			here, all = here+o.weight[i]*o.samples[i][station], all+o.weight[i]*o.flight[i]
		}
		return here / all
	}
	n := len(o.samples)
	mean = math.Min(ratio(0, n), 1)
	batches := min(batchesMost, n)
	sum := 0.0
	for b := range batches {
		d := ratio(b*n/batches, (b+1)*n/batches) - mean
		sum += d * d
	}
	half := 0.0
	if batches > 1 {
		half = student95(batches-1) * math.Sqrt(sum/float64(batches-1)/float64(batches))
	}
	return mean, math.Max(mean-half, 0), math.Min(mean+half, 1)
}

// student95 is the two-sided 95 % quantile of Student's t, for the degrees of
// freedom that batchMeans can ask for.
func student95(freedom int) float64 {
	table := [...]float64{12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262}
	return table[min(freedom, len(table))-1]
}

// stationsOf is where a request waits, as the record keeps it.
func (p *placeFacts) stationsOf() []record.Station {
	if !p.known {
		return nil
	}
	var list []record.Station
	if p.both {
		for s, name := range record.PlaceNames() {
			list = append(list, record.Station{Name: name, Share: p.share[s], Low: p.low[s], High: p.high[s]})
		}
		return list
	}
	// The other end was not seen: all that is known is what is on this side.
	here, low, high := p.share[inGenerator]+p.share[generatorQueue], p.low[inGenerator]+p.low[generatorQueue],
		p.high[inGenerator]+p.high[generatorQueue]
	return []record.Station{
		{Name: record.PlaceGenerator, Share: p.share[inGenerator], Low: p.low[inGenerator], High: p.high[inGenerator]},
		{Name: record.PlaceBeyond, Share: math.Max(1-here, 0), Low: math.Max(1-high, 0), High: math.Min(math.Max(1-low, 0), 1)},
		{Name: record.PlaceAtClient, Share: p.share[generatorQueue], Low: p.low[generatorQueue], High: p.high[generatorQueue]},
	}
}
