//go:build linux

package observe

import (
	"math"

	"ceiling/internal/sys"
	"ceiling/record"
)

// parseOpenFilesLimit parses the soft limit on open files from /proc/PID/limits: "Max open files
// 1024    4096    files". -1: "unlimited"; 0: no such line.
func parseOpenFilesLimit(text []byte) int64 {
	const name = "Max open files"
	c := sys.Cursor{Text: text}
	for {
		line, ok := c.Line()
		if !ok {
			return 0
		}
		if !hasPrefix(line, name) {
			continue
		}
		l := sys.Cursor{Text: line[len(name):]}
		w := l.Word()
		if string(w) == "unlimited" {
			return -1
		}
		v, n := sys.LeadingDecimal(w)
		if n == 0 || n != len(w) || v > math.MaxInt64 {
			return 0
		}
		return int64(v)
	}
}

// countState counts a thread by its state letter.
func countState(state byte, n *record.ThreadCount) {
	switch state {
	case 'R':
		n.Running++
	case 'S', 'I':
		n.Sleeping++
	case 'D':
		n.Disk++
	default:
		n.Other++
	}
}

// parseSocketLink parses the target of a link in /proc/PID/fd, "socket:[INODE]".
func parseSocketLink(link []byte) (inode uint64, ok bool) {
	const prefix = "socket:["
	if !hasPrefix(link, prefix) {
		return 0, false
	}
	v, n := sys.LeadingDecimal(link[len(prefix):])
	rest := link[len(prefix)+n:]
	return v, n > 0 && len(rest) == 1 && rest[0] == ']'
}
