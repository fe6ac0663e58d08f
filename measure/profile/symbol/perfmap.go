package symbol

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// perfMapMax bounds what is read of a perf map: that of a large Java server has
// some 10 MB.
const perfMapMax = 256 << 20

// nameMax bounds a name.
const nameMax = 400

// readPerfMap names the addresses, which ascend, by a perf map: lines of
// "START SIZE name" in hexadecimal (tools/perf/Documentation/jit-interface.txt).
// Code that is replaced gets a line of its own, so the last one that holds an
// address has it.
func readPerfMap(r io.Reader, addrs []uint64) (map[uint64]string, error) {
	found := map[uint64]string{}
	lines := bufio.NewScanner(io.LimitReader(r, perfMapMax))
	lines.Buffer(make([]byte, 64<<10), 1<<20)
	for lines.Scan() {
		start, size, name, ok := perfMapLine(lines.Bytes())
		if !ok {
			continue
		}
		for i := lowerBound(addrs, start); i < len(addrs) && addrs[i]-start < size; i++ {
			found[addrs[i]] = string(name)
		}
	}
	if err := lines.Err(); err != nil {
		return found, fmt.Errorf("read perf map: %w", err)
	}
	return found, nil
}

func perfMapLine(line []byte) (start, size uint64, name []byte, ok bool) {
	first, rest, _ := bytes.Cut(line, []byte(" "))
	second, name, _ := bytes.Cut(rest, []byte(" "))
	start, errStart := strconv.ParseUint(string(bytes.TrimPrefix(first, []byte("0x"))), 16, 64)
	size, errSize := strconv.ParseUint(string(bytes.TrimPrefix(second, []byte("0x"))), 16, 64)
	name = bytes.TrimSpace(name)
	return start, size, name[:min(len(name), nameMax)], errStart == nil && errSize == nil && len(name) > 0
}
