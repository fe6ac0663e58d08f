package verdict

import (
	"math"

	"ceiling/record"
)

// Requirements for kernel events to represent the run.
const (
	// placeBurstsFewest bursts yield an interval: of batches of bursts, as with samples.
	placeBurstsFewest = minSamples
	// requestsFewest is the fewest requests in all bursts: with 100, one request is one
	// percentage point of a share.
	requestsFewest = 100
	// eventsSure is the error of a share, ± at 95 %, up to which events decide whatever the error
	// of the samples: events are exact within a burst, while a kernel without preemption puts
	// samples off by 2 to 6 points.
	eventsSure = 0.05
	// sourcesApart is how far the shares of two sources may be apart beyond their errors.
	sourcesApart = 0.05
	// coverageLow and coverageHigh bound the ratio of what the bursts account for to what the
	// generator reports. Connections that were silent throughout are missing from the former;
	// requests on a connection being reopened are at no station.
	coverageLow, coverageHigh = 0.85, 1.2
)

// timedPlaces maps a row's places to stations.
func timedPlaces() map[string]int {
	return map[string]int{
		record.PlaceToServer: toServer, record.PlaceAtServer: serverQueue, record.PlaceInServer: inServer,
		record.PlaceToClient: toClient, record.PlaceAtClient: generatorQueue, record.PlaceGenerator: inGenerator,
	}
}

// fromEvents takes the shares from the kernel's events if they account for the run's requests.
// Events see every request of the connections that they follow at both ends, so nothing has to be
// inferred from acknowledgements.
func fromEvents(f *facts, series *record.Series, load []record.LoadRow) (o occupancy, ok bool) {
	if len(f.base.run.Agents) > 1 {
		return o, false // each sees only its own connections
	}
	requests, covered, followed := 0.0, 0.0, 0.0
	for _, row := range ours(f.cpu, series.Observed.Times) {
		at, all, ok := f.cpu.generator.timed(row, load)
		if !ok {
			continue
		}
		covered += f.base.coverage(row, at)
		f.delayed.toServer(&at, f.base.rate)
		o.add(at, all, float64(row.WidthNs))
		requests += float64(row.Requests)
		if row.Followed < 1 {
			followed += row.Followed * math.Max(f.base.slots, 1)
		}
	}
	n := len(o.samples)
	if n < placeBurstsFewest || requests < requestsFewest {
		return o, false
	}
	// The connections followed are sampled by port, so their number is Poisson.
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

// timed returns the mean number of requests at each station in a burst, over all connections, and
// their sum.
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
	if f.base.open {
		// Between two requests, an open-loop connection waits for the schedule.
		at[inGenerator] = f.inGenerator()
	}
	for s := range at {
		all += at[s]
	}
	return at, all, all > 0
}

// timedBytes is the same if a connection may have several requests in flight: the bytes in each
// place make so many requests, and requests without bytes anywhere are inside the server.
func (f *generatorSide) timedBytes(row *record.TimesRow, load []record.LoadRow) (at [stations]float64, all float64, ok bool) {
	if !(f.base.requestBytes.value > 0) || !(f.base.responseBytes.value > 0) {
		return at, 0, false
	}
	known := float64(row.KnownNs)
	connections := f.base.slots / math.Max(float64(f.base.run.Load.Pipelining), 1)
	sum := 0.0
	for _, place := range row.Places {
		s, is := timedPlaces()[place.Place]
		if !is || s == inServer || f.base.open && s == inGenerator {
			continue
		}
		size := f.base.responseBytes.value
		if s == toServer || s == serverQueue {
			size = f.base.requestBytes.value
		}
		at[s] = math.Max(place.ByteNs, 0) / size / known * connections
		sum += at[s]
	}
	if f.base.open {
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

// coverage returns the ratio of what a burst accounts for to what there was: the connections'
// time in a closed loop; in an open one the requests in flight, by Little's law the rate times
// what each took.
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
