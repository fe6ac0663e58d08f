package audit

import (
	"math"
	"slices"

	"ceiling/record"
)

// run is what a point states about a run, without the impossible figures, and the tool that
// printed it.
type run struct {
	record.Point
	tool pointTool
}

func newRun(p record.Point) (*run, contradictions) {
	r := &run{Point: p, tool: toolOf(p.ClientTool)}
	found := dropImpossible(&r.Point)
	r.tool.coarsen(&r.Point)
	return r, found
}

// dropImpossible removes figures that no measurement can have.
func dropImpossible(p *record.Point) (found contradictions) {
	positive := []string{"client_workers", "connections", "pipelining", "target_rps", "duration_s", "elapsed_s",
		"vcpus", "client_vcpus", "server_cpus_used", "nic_gbps", "nic_gbps_spec", "client_nic_gbps_spec", "rps", "body_bytes",
		"mean_response_bytes"}
	percents := []string{"server_cpu_pct", "client_cpu_pct", "nic_pct_author"}
	for _, n := range p.Figures() {
		v := n.Figure.Value
		if !n.Figure.Known {
			continue
		}
		why := ""
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			why = "no-number"
		case v < 0:
			why = "negative"
		case v == 0 && slices.Contains(positive, n.Key):
			why = "zero"
		case v > figureMost || v < 1/figureMost && v > 0:
			// Arithmetic on it would overflow too.
			why = "beyond"
		case v > 100.5 && slices.Contains(percents, n.Key):
			why = "above-host"
		default:
			continue
		}
		found.note(KindField, say("point.figure."+why, with{"key": n.Key, "value": v}), n.Key)
		*n.Figure = record.Figure{}
	}
	return found
}

// called names a point for readers who meet it elsewhere.
func (r *run) called() record.Statement {
	return say("point.called", with{"id": r.ID, "line": r.Line})
}

// open reports whether the run had a target rate.
func (r *run) open() bool { return r.TargetRPS.Known }

func (r *run) metSchedule() bool {
	return r.RPS.Known && r.RPS.Value >= scheduleMet*r.TargetRPS.Value
}

// schedule compares the rate with the target rate.
func (r *run) schedule() with {
	return with{"per_s": r.RPS.Value, "target_per_s": r.TargetRPS.Value, "share": r.RPS.Value / r.TargetRPS.Value}
}

func (r *run) checkSchedule() (found contradictions) {
	switch {
	case !r.open() || !r.RPS.Known:
	case !r.metSchedule():
		found.note(KindSchedule, say("point.schedule.slower-load", r.schedule()), "rps", "target_rps")
	case r.RPS.Value > 1.05*r.TargetRPS.Value:
		found.note(KindSchedule, say("point.schedule.exceeded", r.schedule()), "rps", "target_rps")
	}
	return found
}

// checkTotals compares the counted requests with the rate.
func (r *run) checkTotals() (found contradictions) {
	if r.PeakRPS.Known && r.PeakRPS.Value < r.RPS.Value {
		found.note(KindTotals, say("point.peak-below-mean", with{"peak_per_s": r.PeakRPS.Value, "per_s": r.RPS.Value}), "peak_rps", "rps")
	}
	total, key, ok := r.totalRequests()
	elapsed, elapsedKey, timed := r.seconds()
	if !ok || !timed || !r.RPS.Known {
		return found
	}
	counted := total / elapsed
	limit := totalsOff
	if elapsedKey == "duration_s" {
		limit = totalsOffAsked
	}
	if off := math.Abs(counted/r.RPS.Value - 1); off > limit {
		found.note(KindTotals, say("point.totals.apart", with{"requests": total, "time_s": elapsed, "counted_per_s": counted,
			"per_s": r.RPS.Value, "off": off}), key, elapsedKey, "rps")
	}
	return found
}

func (r *run) totalRequests() (total float64, key string, known bool) {
	switch {
	case r.TotalRequests.Known && r.TotalRequests.Value > 0:
		return r.TotalRequests.Value, "total_requests", true
	case r.TotalRequestsK.Known && r.TotalRequestsK.Value > 0:
		return r.TotalRequestsK.Value * 1000, "total_requests_k", true
	}
	return 0, "", false
}

// seconds returns how long the run took, or was planned to take.
func (r *run) seconds() (s float64, key string, known bool) {
	if r.ElapsedS.Known {
		return r.ElapsedS.Value, "elapsed_s", true
	}
	return r.DurationS.Value, "duration_s", r.DurationS.Known
}

// opened returns the least number of established connections: as counted, else as many of the
// requested ones as the tool opens.
func (r *run) opened() (connections float64, known bool) {
	least, _, known := r.openedRange()
	return least, known
}

func (r *run) openedRange() (least, most float64, known bool) {
	switch {
	case r.Established.Known && r.Established.Value > 0:
		return r.Established.Value, r.Established.Value, true
	case !r.Connections.Known:
		return 0, 0, false
	case r.ClientWorkers.Known:
		least, most = r.tool.connections(r.Connections.Value, r.ClientWorkers.Value)
		return least, most, true
	}
	return r.Connections.Value, r.Connections.Value, true
}

// checkConnections finds where a tool opens a different number of connections than requested.
func (r *run) checkConnections() (found contradictions) {
	if !r.Connections.Known || !r.ClientWorkers.Known {
		return nil
	}
	asked, workers := r.Connections.Value, r.ClientWorkers.Value
	opens, most := r.tool.connections(asked, workers)
	switch {
	case r.tool.share == sharedFloor && asked < workers:
		found.note(KindConnections, say("point.connections.refused", with{"tool": r.tool.name, "asked": asked, "workers": workers}),
			"connections", "client_workers")
	case opens == most && opens != asked:
		keys := []string{"connections", "client_workers"}
		if r.Established.Known {
			keys = append(keys, "established")
		}
		found.note(KindConnections, say("point.connections.rounded", with{"asked": asked, "workers": workers, "opened": opens,
			"one_at_least": r.tool.share == sharedFloor1, "counted": r.Established.Known, "established": r.Established.Value}), keys...)
	}
	return found
}

// slots returns the number of requests that can be in flight: most with the requested
// connections, least with those that the tool is certain to open.
func (r *run) slots() (least, most float64, known bool) {
	least, most, known = r.openedRange()
	if !known || !r.Pipelining.Known {
		return 0, 0, false
	}
	return least * r.Pipelining.Value, math.Max(most, r.Connections.Value) * r.Pipelining.Value, true
}

func (r *run) slotsSay() record.Statement {
	_, most, _ := r.slots()
	return say("point.slots", with{"connections": most / r.Pipelining.Value, "pipelining": r.Pipelining.Value, "slots": most})
}
