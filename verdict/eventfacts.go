package verdict

import (
	"math"

	"ceiling/record"
)

// What kernel events have to come to before they speak for the run.
const (
	// placeBurstsFewest give an interval: of batches of bursts, as of samples.
	placeBurstsFewest = placesFewest
	// requestsFewest in all bursts: with 100 one request is one point of a share.
	requestsFewest = 100
	// eventsSure is the error of a share, ± of 95 %, up to which they speak whatever
	// the samples' is: events say exactly what was in a burst, and a kernel without
	// preemption makes samples off by 2 to 6 points.
	eventsSure = 0.05
	// coverageLow and coverageHigh bound what the bursts account for, over what
	// the generator says was there. Connections that were silent throughout are
	// missing from the one; requests of connections that were made anew are in
	// no place while the connection is opened.
	coverageLow, coverageHigh = 0.85, 1.2
)

// timedPlaces are the stations of a row's places, in their order.
func timedPlaces() map[string]int {
	return map[string]int{
		record.PlaceToServer: wayIn, record.PlaceAtServer: serverQueue, record.PlaceInServer: inServer,
		record.PlaceToClient: wayBack, record.PlaceAtClient: generatorQueue, record.PlaceGenerator: inGenerator,
	}
}

// fromEvents takes the shares from the kernel's events, where those account for
// the run's requests. They see every request of the connections that they
// follow at both ends, so nothing has to be worked out from acknowledgements.
func fromEvents(f *cpuFacts, series *record.Series, load []record.LoadRow) (o occupancy, ok bool) {
	if len(f.run.Agents) > 1 {
		return o, false // each sees its own connections only
	}
	requests, covered, followed := 0.0, 0.0, 0.0
	for _, row := range ours(f, series.Observed.Times) {
		at, all, ok := f.timed(row, load)
		if !ok {
			continue
		}
		o.add(at, all, float64(row.WidthNs))
		requests += float64(row.Requests)
		covered += f.coverage(row, at)
		if row.Followed < 1 {
			followed += row.Followed * math.Max(f.slots, 1)
		}
	}
	n := len(o.samples)
	if n < placeBurstsFewest || requests < requestsFewest {
		return o, false
	}
	// Which connections are followed is drawn by their ports, so how many is Poisson.
	chance := 0.0
	if followed > 0 {
		chance = 2 / math.Sqrt(followed)
	}
	if covered /= float64(n); covered < coverageLow-chance || covered > coverageHigh+chance {
		return o, false
	}
	o.by, o.moments = record.ByKernelEvents, n
	o.settle()
	return o, true
}

// timed is the mean number of requests at each station in a burst, of all
// connections, and their sum.
func (f *generatorSide) timed(row *record.TimesRow, load []record.LoadRow) (at [stations]float64, all float64, ok bool) {
	scale := float64(row.WidthNs) * row.Followed
	if !(scale > 0) || row.KnownNs <= 0 || row.Connections <= 0 || len(row.Places) == 0 {
		return at, 0, false
	}
	if row.Pipelined {
		return f.timedBytes(row, load)
	}
	for _, place := range row.Places {
		if s, known := timedPlaces()[place.Place]; known {
			at[s] = math.Max(float64(place.Ns), 0) / scale
		}
	}
	if f.open {
		// Between two requests a connection of an open loop waits for the schedule.
		at[inGenerator] = f.inGenerator()
	}
	for s := range at {
		all += at[s]
	}
	return at, all, all > 0
}

// timedBytes is the same where a connection may have several requests in
// flight: the bytes in each place make so many requests, and what has no bytes
// anywhere is inside the server.
func (f *generatorSide) timedBytes(row *record.TimesRow, load []record.LoadRow) (at [stations]float64, all float64, ok bool) {
	if !(f.requestBytes.value > 0) || !(f.responseBytes.value > 0) {
		return at, 0, false
	}
	known := float64(row.KnownNs)
	connections := f.slots / math.Max(float64(f.run.Load.Pipelining), 1)
	sum := 0.0
	for _, place := range row.Places {
		s, is := timedPlaces()[place.Place]
		if !is || s == inServer || f.open && s == inGenerator {
			continue
		}
		size := f.responseBytes.value
		if s == wayIn || s == serverQueue {
			size = f.requestBytes.value
		}
		at[s] = math.Max(place.ByteNs, 0) / size / known * connections
		sum += at[s]
	}
	if f.open {
		at[inGenerator] = f.inGenerator()
		sum += at[inGenerator]
	}
	all = f.flightAt(load, row.TNs-row.WidthNs/2)
	if sum > all {
		all = sum
	}
	at[inServer] = all - sum
	return at, all, all > 0
}

// coverage is what a burst accounts for over what there was: the time of the
// connections of a closed loop; in an open one the requests in flight, which by
// Little's law are the rate times what each took.
func (f *runFacts) coverage(row *record.TimesRow, at [stations]float64) float64 {
	scale := float64(row.WidthNs) * row.Followed
	switch {
	case row.Pipelined:
		return float64(row.KnownNs) / (float64(row.WidthNs) * float64(row.Connections))
	case !f.open:
		return float64(row.KnownNs) / scale / math.Max(f.slots, 1)
	}
	sum := 0.0
	for s := range at {
		if s != inGenerator {
			sum += at[s]
		}
	}
	there := f.rate * f.run.Latency.Service.MeanNs / 1e9
	if !(there > 0) {
		return 0
	}
	return sum / there
}
