package chart

// ConnectionsOf returns the server's connections by the process that holds them, from the last
// row that sampled them; empty if none did.
func ConnectionsOf(run *Run) map[int]int {
	held := map[int]int{}
	for _, row := range run.observed().Listeners {
		for _, c := range row.Connections {
			held[c.PID] = c.Connections
		}
	}
	return held
}

// SharedListeners returns the number of listening sockets of the server that share one address
// (through SO_REUSEPORT), and that address; 0 if none do.
func SharedListeners(run *Run) (n int, addr string) {
	sockets := map[string]map[uint64]bool{}
	for _, row := range run.observed().Listeners {
		for _, l := range row.Listeners {
			if sockets[l.Addr] == nil {
				sockets[l.Addr] = map[uint64]bool{}
			}
			sockets[l.Addr][l.Inode] = true
			if n := len(sockets[l.Addr]); n > 1 {
				return n, l.Addr
			}
		}
	}
	return 0, ""
}
