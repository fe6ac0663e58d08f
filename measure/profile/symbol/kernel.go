package symbol

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// readKallsyms names the kernel's addresses, which ascend, by /proc/kallsyms:
// "ffffffff81000000 T name", of a module with a tab and its name behind. Where
// the kernel hides its addresses they are all 0.
func readKallsyms(r io.Reader, addrs []uint64) (map[uint64]string, error) {
	n := newNearest(addrs)
	hidden := true
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		first, rest, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		start, err := strconv.ParseUint(string(first), 16, 64)
		if err != nil || start == 0 || len(rest) < 3 {
			continue
		}
		hidden = false
		switch rest[0] {
		case 't', 'T', 'w', 'W':
			if at, ok := n.wants(start, 0); ok {
				name, _, _ := bytes.Cut(rest[2:], []byte("\t"))
				n.keep(at, start, 0, name)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read kernel symbols: %w", err)
	}
	if hidden {
		return nil, errors.New("the kernel hides its symbols (kernel.kptr_restrict): run as root")
	}
	return n.names(), nil
}
