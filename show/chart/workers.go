package chart

import "ceiling/record"

// ConnectionsOf returns the server's connections by the process that holds them, from the last row
// that sampled them or, without rows, from the result; empty if neither has them.
func ConnectionsOf(run *Run) map[int]int {
	held := record.ConnectionsHeld(run.observed().Listeners)
	if held != nil || run.Subject == nil {
		return held
	}
	held = map[int]int{}
	for _, p := range run.Subject.Processes {
		if p.Connections != nil {
			held[p.PID] = *p.Connections
		}
	}
	return held
}

// SharedListeners returns the number of listening sockets of the server that share one address
// (through SO_REUSEPORT), and that address; 0 if none do.
func SharedListeners(run *Run) (n int, addr string) {
	if n, addr = record.SharedListeners(run.observed().Listeners); n == 0 && run.Subject != nil && run.Subject.Sharing > 0 {
		return run.Subject.Sharing, run.Subject.Address
	}
	return n, addr
}
