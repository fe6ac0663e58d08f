package record

import (
	"math"
	"slices"
)

// PlaceBeyond is everything beyond the generator if the server's end was not observed.
const PlaceBeyond = "way and server"

// PlaceNames returns the places of a request's path, in order.
func PlaceNames() [6]string {
	return [...]string{PlaceGenerator, PlaceToServer, PlaceAtServer, PlaceInServer, PlaceToClient, PlaceAtClient}
}

// What a Use measures.
const (
	UseOfThread = "thread" // the busiest one: the share of the window that it ran
	UseOfCores  = "cores"
	UseOfLink   = "link" // bits per second, in one direction
)

// Use is how much of a station's resource was used over the window.
type Use struct {
	Station string `json:"station"` // a place of the path, with what works there
	// What is used: UseOfThread, UseOfCores or UseOfLink.
	What string `json:"what"`
	// Name of the interface; "" for the others.
	Name string  `json:"name,omitempty"`
	Used float64 `json:"used"` // over the window: a share of a thread's time, cores, or bits per second
	// Of is the total available; 0 if unknown.
	Of float64 `json:"of,omitempty"`
}

// NewUse returns a Use, clamped to what JSON can represent.
func NewUse(station, what, name string, used, of float64) Use {
	return Use{Station: station, What: what, Name: name, Used: finite(used), Of: finite(of)}
}

// Share returns the share used; ok is false if unknown.
func (u *Use) Share() (share float64, ok bool) {
	if u.Of <= 0 {
		return 0, false
	}
	return u.Used / u.Of, true
}

// Path is where a request's time goes, from the generator through the server and back.
type Path struct {
	// MeanNs is the mean service time, which the places divide; 0 if unknown.
	MeanNs float64
	// Places in path order; none if not measured.
	Places []Place
	// By is how they were measured, Runs over how many runs.
	By   string
	Runs int
}

// Place is a station of a Path.
type Place struct {
	Station
	// Known reports whether its share is known: in a run without a result the generator's may not
	// be.
	Known bool
	// Requests are here at a time, by Little's law; 0 if unknown.
	Requests float64
	// Limits: the bottleneck is here.
	Limits bool
	Uses   []Use
}

// Path returns the path of the run's requests.
func (r *Run) Path() Path { return PathOf(r) }

// PathOf returns the combined path of the requests of several runs of one condition; its
// intervals span those of all runs. It skips runs without stations, or with other stations than
// the first run's.
func PathOf(runs ...*Run) Path {
	var p Path
	var requests, times, weights, elapsed float64
	bottlenecks := map[Bottleneck]int{}
	for _, r := range runs {
		list := r.Verdict.Stations
		if len(list) == 0 || len(p.Places) > 0 && !slices.EqualFunc(p.Places, list, func(a Place, b Station) bool { return a.Name == b.Name }) {
			continue
		}
		if p.Places == nil {
			p.Places, p.By = make([]Place, len(list)), r.Verdict.StationsBy
			for i := range list {
				p.Places[i] = Place{Station: Station{Name: list[i].Name, Low: 1}, Known: list[i].Name != PlaceGenerator || r.timesBatches()}
			}
		}
		p.Runs++
		n := float64(r.Requests.Completed)
		time := n * r.Latency.Service.MeanNs
		weight := max(time, 1) // if no time is known, each run counts the same
		requests, times, weights, elapsed = requests+n, times+time, weights+weight, elapsed+r.ElapsedS
		for i, s := range list {
			at := &p.Places[i]
			at.Share += s.Share * weight
			at.Low, at.High = min(at.Low, s.Low), max(at.High, s.High)
		}
		p.addUses(r)
		bottlenecks[r.Verdict.Bottleneck]++
	}
	if p.Runs == 0 {
		return p
	}
	if requests > 0 {
		p.MeanNs = times / requests
	}
	p.settle(weights, times/1e9/elapsed)
	for b, n := range bottlenecks {
		if 2*n > p.Runs {
			for i := range p.Places {
				p.Places[i].Limits = slices.Contains(b.Stations(), p.Places[i].Name)
			}
		}
	}
	return p
}

// timesBatches reports whether the time that the generator handles requests is known: for a run
// that is going on or was killed, no row has its batch times.
func (r *Run) timesBatches() bool {
	return !r.Unfinished || r.Generator.BatchMeanNs > 0 || r.Verdict.StationsBy == ByKernelEvents
}

// settle turns sums over runs into means. inFlight is the mean number of requests in flight, not
// finite if no window is known.
func (p *Path) settle(weights, inFlight float64) {
	for i := range p.Places {
		at := &p.Places[i]
		at.Share /= weights
		if inFlight > 0 && !math.IsInf(inFlight, 0) {
			at.Requests = at.Share * inFlight
		}
		for n := range at.Uses {
			at.Uses[n].Used /= float64(p.Runs)
		}
	}
}

// addUses adds up uses; if runs know different things, it keeps only what the first one knows.
func (p *Path) addUses(r *Run) {
	for _, u := range r.uses() {
		at := slices.IndexFunc(p.Places, func(one Place) bool { return one.Name == u.Station })
		if at < 0 {
			continue
		}
		list := p.Places[at].Uses
		same := slices.IndexFunc(list, func(one Use) bool { return one.What == u.What && one.Name == u.Name })
		switch {
		case same >= 0:
			list[same].Used += u.Used
		case p.Runs == 1:
			p.Places[at].Uses = append(list, u)
		}
	}
}

// uses returns the verdict's uses; for an old record, what its result says.
func (r *Run) uses() []Use {
	if len(r.Verdict.Uses) > 0 {
		return r.Verdict.Uses
	}
	var list []Use
	if len(r.Generator.Workers) > 0 {
		list = append(list, Use{Station: PlaceGenerator, What: UseOfThread, Used: r.Generator.BusiestWorker, Of: 1})
	}
	if r.Subject != nil && r.ElapsedS > 0 {
		used := int64(0)
		for i := range r.Subject.Processes {
			used += r.Subject.Processes[i].CPUNs
		}
		list = append(list, Use{Station: PlaceInServer, What: UseOfCores, Used: float64(used) / 1e9 / r.ElapsedS})
	}
	return list
}

// Stations returns the places where a bottleneck holds up requests; nil if it has none, such as
// too few connections.
func (b Bottleneck) Stations() []string {
	switch b {
	case LoadGenerator:
		return []string{PlaceGenerator}
	case ServerCPU, ServerThread, ServerBlocked, Uneven:
		return []string{PlaceInServer}
	case SharedCPU:
		return []string{PlaceGenerator, PlaceInServer}
	case Bandwidth, Packets:
		return []string{PlaceToServer, PlaceToClient}
	case AcceptQueue:
		return []string{PlaceAtServer}
	}
	return nil
}
