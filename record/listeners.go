package record

// ConnectionsHeld returns how the server's connections were distributed over its processes in the
// last row that says so; nil if none does.
func ConnectionsHeld(rows []*ListenerRow) map[int]int {
	var held map[int]int
	for _, row := range rows {
		if len(row.Connections) == 0 {
			continue
		}
		held = map[int]int{}
		for _, c := range row.Connections {
			held[c.PID] = c.Connections
		}
	}
	return held
}

// SharedListeners returns the largest number of listening sockets of the server that shared one
// address at one time (through SO_REUSEPORT), and that address; 0 if none did.
func SharedListeners(rows []*ListenerRow) (n int, addr string) {
	for _, row := range rows {
		sockets := map[string]map[uint64]bool{}
		for _, l := range row.Listeners {
			if sockets[l.Addr] == nil {
				sockets[l.Addr] = map[uint64]bool{}
			}
			sockets[l.Addr][l.Inode] = true
		}
		for of, inodes := range sockets {
			if k := len(inodes); k > 1 && (k > n || k == n && of < addr) {
				n, addr = k, of
			}
		}
	}
	return n, addr
}
