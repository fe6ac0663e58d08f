package chart

// ConnectionsOf are the server's connections by the process that holds them, as the last
// row that looked has them; empty where none did.
func ConnectionsOf(run *Run) map[int]int {
	held := map[int]int{}
	for _, row := range run.observed().Listeners {
		for _, c := range row.Connections {
			held[c.PID] = c.Connections
		}
	}
	return held
}

// SharedListeners is how many listening sockets of the server share one address, and
// which: several sockets on one address do so by SO_REUSEPORT. 0 of none.
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
