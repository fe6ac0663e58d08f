package verdict

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"ceiling/record"
)

// Stations of a request, in the order in which it passes them.
const (
	inGenerator    = iota // being sent, or its response being handled
	toServer              // written by the generator, not yet in the server's kernel
	serverQueue           // unread in the server's socket
	inServer              // in no socket: inside the server
	toClient              // written by the server, not yet in the generator's kernel
	generatorQueue        // response unread in the generator's socket
	stations
)

// occupancy is how many requests were at each station, as one source saw it. By Little's law a
// share of the requests in flight is the same share of a request's time.
type occupancy struct {
	by string // record.ByKernelEvents or record.BySocketSamples
	// samples has the requests at each station, one row per sample; flight has the requests in
	// flight at that time, and weight how much the sample saw: the moments of a row of socket
	// samples, or the length of a burst of events.
	samples [][stations]float64
	flight  []float64
	weight  []float64
	// moments is how often sockets were read, over all samples, or the number of bursts.
	moments int
	share   [stations]float64
	// low and high bound each share: about 95 %.
	low, high [stations]float64
}

// add appends a sample.
func (o *occupancy) add(at [stations]float64, flight, weight float64) {
	o.samples, o.flight, o.weight = append(o.samples, at), append(o.flight, flight), append(o.weight, weight)
}

// settle computes the shares.
func (o *occupancy) settle() {
	for s := range stations {
		o.share[s], o.low[s], o.high[s] = o.batchMeans(s)
	}
}

// error returns half the widest interval.
func (o *occupancy) error() float64 {
	widest := 0.0
	for s := range stations {
		widest = math.Max(widest, o.high[s]-o.low[s])
	}
	return widest / 2
}

// placeFacts describes where the requests were.
type placeFacts struct {
	occupancy
	known bool
	both  bool // the server's end was observed too
	// other is what the source says that was not chosen; nil if there is none.
	other *occupancy
	// rtt is the round trip without the server's own time, ns; base is the shortest seen.
	rtt, base figure
	retrans   figure // share of the server's segments that were retransmitted
	rwnd      figure // share of its sending time that the receiver's window blocked
}

// occupancyOf counts the requests at each station, sample by sample.
func occupancyOf(f *facts, series *record.Series, rows []*record.SocketsRow, load []record.LoadRow) placeFacts {
	p := placeFacts{occupancy: occupancy{by: record.BySocketSamples}}
	p.trips(f.cpu, series)
	if f.delayed.waits {
		p.rtt = p.base // the other one is of the delayed ACKs
	}
	for _, row := range rows {
		if row.Client.Sockets <= 0 && row.Client.Connecting <= 0 {
			continue
		}
		flight := f.cpu.generator.flightAt(load, row.TNs)
		if flight <= 0 {
			continue
		}
		p.both = p.both || row.Server.Sockets > 0
		p.add(f.placed(row, flight, p.rtt, p.base), flight, float64(max(row.Moments, 1)))
		p.moments += max(row.Moments, 1)
	}
	if p.known = len(p.samples) >= minSamples; p.known {
		p.settle()
	}
	if events, ok := fromEvents(f, series, load); ok && (!p.known || events.error() <= eventsSure || events.error() <= p.error()) {
		if p.both && p.known {
			p.other = &occupancy{}
			*p.other = p.occupancy
		}
		p.occupancy, p.known, p.both = events, true, true
	} else if ok {
		p.other = &events
	}
	p.both = p.both && p.known
	return p
}

// apart returns the station at which the two sources differ most, and by how much.
func (p *placeFacts) apart() (station int, by float64) {
	for s := range stations {
		if d := math.Abs(p.share[s] - p.other.share[s]); d > by {
			station, by = s, d
		}
	}
	return station, by
}

// sourceEvidence says by which source the stations were measured, and how far the other one is from
// it; empty without a second source.
func (p *placeFacts) sourceEvidence() []record.Evidence {
	if p.other == nil {
		return nil
	}
	at, by := p.apart()
	return []record.Evidence{record.NewEvidence("stations_by", by, "share", say("stations.by", with{"by": p.by, "error": p.error(),
		"other": p.other.by, "other_error": p.other.error(), "at": record.PlaceNames()[at], "share": p.share[at], "other_share": p.other.share[at]}))}
}

// sourcesDiffer reports whether the two sources differ by more than chance explains.
func (p *placeFacts) sourcesDiffer() bool {
	if p.other == nil {
		return false
	}
	_, by := p.apart()
	return by > sourcesApart+p.error()+p.other.error()
}

// missing says why the shares of both ends are unknown.
func (p *placeFacts) missing() record.Statement {
	return say("missing.places", with{"samples": len(p.samples), "least": minSamples, "one_end": p.known})
}

// flightAt returns how many requests are in flight at a time: the slots of a closed loop,
// interpolated load rows for an open one.
func (f *generatorSide) flightAt(load []record.LoadRow, tNs int64) float64 {
	if !f.base.open {
		return f.slotsAt(tNs)
	}
	if len(load) == 0 {
		return 0
	}
	i := sort.Search(len(load), func(i int) bool { return load[i].TNs >= tNs })
	if i == len(load) {
		i--
	}
	// Interpolate linearly between two rows.
	at := float64(load[i].InFlight)
	if i > 0 && load[i].TNs > load[i-1].TNs && tNs < load[i].TNs {
		share := float64(load[i].TNs-tNs) / float64(load[i].TNs-load[i-1].TNs)
		at = at*(1-share) + float64(load[i-1].InFlight)*share
	}
	return at
}

// requestsIn converts sockets with bytes to requests: at least one per socket, as many as the
// bytes make up, at most the pipeline depth of each.
func (f *runFacts) requestsIn(sockets, bytes float64, each figure) float64 {
	n := math.Max(sockets, 0)
	if pipelining := float64(f.run.Load.Pipelining); pipelining > 1 && each.known && each.value > 0 {
		n = math.Min(math.Max(bytes/each.value, n), n*pipelining)
	}
	return n
}

// placed distributes the requests in flight of one sample over the stations. Unread bytes are
// certain, and so is what is in transit if both ends of a connection were read: TCP counts
// progress at either end.
func (f *facts) placed(row *record.SocketsRow, flight float64, rtt, base figure) (at [stations]float64) {
	at[generatorQueue] = f.base.requestsIn(row.Client.Unread, row.Client.UnreadBytes, f.base.responseBytes)
	at[serverQueue] = f.base.requestsIn(row.Server.Unread, row.Server.UnreadBytes, f.base.requestBytes)
	at[inGenerator] = f.cpu.generator.inGenerator()
	if row.ToServer.Pairs > 0 && row.ToClient.Pairs > 0 {
		at[toServer] = f.base.requestsIn(row.ToServer.Connections, row.ToServer.Bytes, f.base.requestBytes)
		at[toClient] = f.base.requestsIn(row.ToClient.Connections, row.ToClient.Bytes, f.base.responseBytes)
	} else {
		at[toServer], at[toClient] = f.path.onTheWay(row, at[serverQueue], at[generatorQueue], rtt, base)
	}
	if f.delayed.waits { // it is not a way to the server that waits for an ACK
		at[toServer] = math.Min(at[toServer], f.base.rate*base.value/1e9)
	}
	at[toServer] += math.Max(float64(row.Client.Connecting), 0)
	sum := 0.0
	for s := range at {
		sum += at[s]
	}
	if sum > flight { // both ends are not read at the same instant
		for s := range at {
			at[s] *= flight / sum
		}
		sum = flight
	}
	at[inServer] = flight - sum
	f.delayed.toServer(&at, f.base.rate)
	return at
}

// onTheWay estimates what is in transit from what is unacknowledged if the two ends are on
// different hosts. The kernel may delay an ACK until the next segment in that direction
// (net/ipv4/tcp_output.c, tcp_send_delayed_ack: up to 40 ms), so a request that the server works
// on looks unacknowledged too, and so does an unread response. Server to client is therefore what
// is unacknowledged and not unread, and client to server at most what the round trip accounts
// for. In an open loop the generator has no next request to acknowledge a response with, so
// completed responses seem to be in transit; there the round trip bounds both.
func (f *pathFacts) onTheWay(row *record.SocketsRow, unreadThere, unreadHere float64, rtt, base figure) (in, back float64) {
	back = math.Max(f.base.requestsIn(row.Server.Unacked, row.Server.UnackedBytes, f.base.responseBytes)-unreadHere, 0)
	shortest, longest := f.base.rate*base.value/1e9, f.base.rate*rtt.value/1e9
	if f.onLoopback() && !f.link.held() {
		back, longest = math.Min(back, shortest), shortest
	}
	if f.base.open && f.base.responseBytes.value < largeRequest {
		back = math.Min(back, shortest)
	}
	if !f.base.open {
		// The next request carries the ACK, so what is unacknowledged at the server is in transit
		// in either direction: half of the path each.
		in = math.Min(shortest, back) / 2
		back -= in
	}
	out := math.Max(f.base.requestsIn(row.Client.Unacked, row.Client.UnackedBytes, f.base.requestBytes)-unreadThere, 0)
	switch {
	case f.base.requestBytes.known && f.base.requestBytes.value >= largeRequest:
		in = out
	case rtt.known:
		in = math.Max(in, math.Min(out, math.Max(longest-back, 0)))
	}
	return in, back
}

// inGenerator returns how many requests the generator is handling: each waits for the batch it
// came with.
func (f *generatorSide) inGenerator() float64 {
	if len(f.agents) > 0 {
		sum := 0.0
		for _, a := range f.agents {
			sum += a.cpu.generator.inGenerator()
		}
		return sum
	}
	g := &f.base.run.Generator
	return f.base.rate * cmp.Or(positive(g.HandlingMeanNs), positive(g.BatchMeanNs)) / 1e9
}

// trips reads the round-trip times. It uses the server's: the generator acknowledges a response
// at once, with its next request, while the server may delay its ACK for as long as it works.
func (p *placeFacts) trips(f *cpuFacts, series *record.Series) {
	var rtts []float64
	var retrans, sent, busyNs, rwndNs float64
	rows := ours(f, series.Observed.TCPInfo)
	if len(rows) == 0 { // an expensive source, so read rarely: then use the last one of the warm-up
		if before := setup(f, series.Observed.TCPInfo); len(before) > 0 && before[len(before)-1].TNs > -int64(positive(f.base.run.WarmupS)*1e9) {
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

// batchMeans returns one station's share over all samples with its interval. Consecutive samples
// are correlated, so it cuts the run into batches and takes the interval of their means (Law &
// Kelton, ch. 9): Student's t for n−1 degrees of freedom.
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

// student95 returns the two-sided 95 % quantile of Student's t for the degrees of freedom that
// batchMeans can need.
func student95(freedom int) float64 {
	table := [...]float64{12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262}
	return table[min(freedom, len(table))-1]
}

// stationsOf returns where requests wait, in the record's form.
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
	// The other end was not observed: only this side is known.
	here, low, high := p.share[inGenerator]+p.share[generatorQueue], p.low[inGenerator]+p.low[generatorQueue],
		p.high[inGenerator]+p.high[generatorQueue]
	return []record.Station{
		{Name: record.PlaceGenerator, Share: p.share[inGenerator], Low: p.low[inGenerator], High: p.high[inGenerator]},
		{Name: record.PlaceBeyond, Share: math.Max(1-here, 0), Low: math.Max(1-high, 0), High: math.Min(math.Max(1-low, 0), 1)},
		{Name: record.PlaceAtClient, Share: p.share[generatorQueue], Low: p.low[generatorQueue], High: p.high[generatorQueue]},
	}
}
