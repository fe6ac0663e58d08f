package verdict

import "ceiling/record"

// A rule asks one question about where the bottleneck is. Each is one function in its own file;
// rules() gives their order.
type rule struct {
	name, asks string
	judge      func(*facts) finding
}

// rules returns the rules in the order in which judge believes them: first the ones that make the
// rate something other than the requested work, then those that compare a measurement with a
// known capacity, then those that infer from where requests wait. The generator comes before
// anything that could be blamed on the server.
func rules() []rule {
	return []rule{
		{"shortage", "Did the generator's host run out of ports, files or memory?", ruleShortage},
		{"accept queue", "Is the queue of connections to accept full?", func(f *facts) finding { return ruleAcceptQueue(f.cpu) }},
		{"errors", "Were responses errors?", ruleErrors},
		{"target rate", "Was the target rate reached?", func(f *facts) finding { return ruleTargetRate(f.base) }},
		{"source", "Do a script or data make requests too slowly?", func(f *facts) finding { return ruleSource(f.base) }},
		{"generator", "Is the load generator saturated?", ruleGenerator},
		{"standstill", "Did the server stall?", ruleStandstill},
		{"delayed ACK", "Do responses wait for acknowledgements (Nagle)?", ruleDelayedAck},
		{"bandwidth", "Is the link saturated?", ruleBandwidth},
		{"packets", "Does the packet rate limit, not the byte rate?", rulePackets},
		{"worker imbalance", "Is one worker saturated while others are idle?", ruleImbalance},
		{"single-threaded server", "Is one server thread saturated while cores are idle?", ruleServerThread},
		{"database", "Do requests wait for the database, or for a connection to it?", ruleDatabase},
		{"server behind", "Is a downstream service saturated?", ruleBehind},
		{"server CPU", "Is the server's CPU saturated?", ruleServerCPU},
		{"CPU contention", "Do generator and server saturate the same cores?", ruleSharedCPU},
		{"neighbours", "Did other processes starve the server?", ruleNeighbours},
		{"HTTP/2 window", "Does the server's HTTP/2 window limit uploads?", ruleWindow},
		{"path", "Is the path saturated (link speed unknown)?", rulePath},
		{"own disk", "Does the server wait for a disk?", ruleOwnDisk},
		{"disk", "Is a disk saturated?", ruleDisk},
		{"server blocked", "Is the server blocked off-CPU: a lock, a pool, another server?", ruleServerBlocked},
		{"concurrency", "Are there too few requests in flight?", ruleConcurrency},
	}
}

// validityCheck asks whether the run's numbers can be used.
type validityCheck struct {
	name, asks string
	find       func(f *facts, slo sloResult, found *finding) *invalidity
}

// validity lists the checks in order; the first that fires is the reason given.
func validity() []validityCheck {
	of := func(find func(*facts) *invalidity) func(*facts, sloResult, *finding) *invalidity {
		return func(f *facts, _ sloResult, _ *finding) *invalidity { return find(f) }
	}
	return []validityCheck{
		{"agents", "Did the run lose an agent that it needed?", of(func(f *facts) *invalidity { return invalidLost(f.base) })},
		{"killed", "Was the run killed before it finished?", of(func(f *facts) *invalidity { return invalidKilled(f.base) })},
		{"accounting", "Do the counts contradict each other?", of(func(f *facts) *invalidity { return invalidAccounting(f.base) })},
		{"local errors", "Did the generator's host cause the errors?", invalidShortage},
		{"nothing", "Did nothing happen?", of(func(f *facts) *invalidity { return invalidNothing(f.cpu.server) })},
		{"Little's law", "Do rate, response time and concurrency contradict each other?",
			of(func(f *facts) *invalidity { return invalidLittle(f.base) })},
		{"CPU samples", "Is the host's CPU accounting inconsistent?", of(func(f *facts) *invalidity { return invalidCPURows(f.cpu) })},
		{"throttling", "Was the generator throttled by a CPU quota?", of(invalidThrottled)},
		{"schedule", "Did the generator miss the schedule of an open loop?", invalidSchedule},
		{"saturation", "Is the load generator the bottleneck?", invalidGenerator},
	}
}

// invalidGenerator: a rate that the generator limits says nothing about the server.
func invalidGenerator(_ *facts, _ sloResult, found *finding) *invalidity {
	if found.bottleneck != record.LoadGenerator {
		return nil
	}
	return &invalidity{because: found.because, bottleneck: record.LoadGenerator, next: found.next}
}
