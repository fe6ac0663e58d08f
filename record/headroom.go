package record

import (
	"math"

	"ceiling/experiment/spec"
)

// Headroom returns how many times its rate the run's generator could reach: what was calibrated for
// it, but no more than its own use of the CPU leaves; 0 if it was not calibrated. Of several agents
// it is the least.
func (r *Run) Headroom() float64 {
	if len(r.Agents) == 0 {
		return atMost(r.Generator.Headroom, r.RoomByUse())
	}
	least := r.Generator.Headroom
	for i := range r.Agents {
		least = atMost(least, r.Agents[i].Headroom())
	}
	return least
}

// Headroom is that of one agent.
func (a *Agent) Headroom() float64 {
	return atMost(a.Generator.Headroom, a.Generator.roomByUse(coresFor(a.Load.Threads, "", &a.Environment)))
}

// RoomByUse returns how many times its rate the generator could reach by what this run used, as if
// a request would go on costing as much: until its busiest thread runs all the time, or all threads
// together fill the cores that they may use. 0 if its use was not measured.
func (r *Run) RoomByUse() float64 { return r.Generator.roomByUse(r.GeneratorCores()) }

// GeneratorCores returns how many cores the generator's threads can use: at most as many as its
// threads, the CPUs it is pinned to or allowed, or its cgroup's quota. 0 if unknown.
func (r *Run) GeneratorCores() float64 {
	return coresFor(r.Load.Threads, r.Spec.PinGenerator, &r.Environment)
}

func coresFor(threads int, pin string, env *Environment) float64 {
	n := float64(max(threads, 0))
	if pinned, err := spec.ParseCPUList(pin); pin != "" && err == nil {
		n = math.Min(n, float64(len(pinned)))
	} else if env.CoresAllowed > 0 {
		n = math.Min(n, float64(env.CoresAllowed))
	}
	if env.CgroupCPUs > 0 {
		n = math.Min(n, env.CgroupCPUs)
	}
	return n
}

func (g *Generator) roomByUse(cores float64) float64 {
	room, used := 0.0, 0.0
	if g.BusiestWorker > 0 {
		room = math.Max(1/g.BusiestWorker, 1)
	}
	for _, w := range g.Workers {
		used += math.Max(w.Busy, 0)
	}
	if used > 0 && cores > 0 {
		room = atMost(room, math.Max(cores/used, 1))
	}
	return room
}

// atMost returns the smaller of two multiples, where 0 is unknown: the first if the second is.
func atMost(times, limit float64) float64 {
	if times > 0 && limit > 0 {
		return math.Min(times, limit)
	}
	return times
}
