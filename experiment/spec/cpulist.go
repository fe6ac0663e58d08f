package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cpuMax limits CPU numbers: twice the largest NR_CPUS of a Linux distribution for x86-64 or
// arm64 would still fit.
const cpuMax = 4096

// ParseCPUList parses the kernel's list format (Documentation/admin-guide/cputopology.rst):
// comma-separated numbers and ranges, as in "0-3,8". The result is ascending and without
// duplicates. CPU numbers are below 4096.
func ParseCPUList(text string) ([]int, error) {
	fail := func(format string, args ...any) ([]int, error) {
		return nil, fmt.Errorf("CPU list %s: %s; write numbers and ranges as in 0-3,8",
			quoteShort(text), fmt.Sprintf(format, args...))
	}
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			to = from
		}
		first, err1 := parseCPU(from)
		last, err2 := parseCPU(to)
		switch {
		case part == "":
			return fail("an empty part")
		case err1 != nil || err2 != nil:
			return fail("%s is not a CPU number from 0 to %d, nor a range of them", quoteShort(part), cpuMax-1)
		case last < first:
			return fail("invalid range %s: the first CPU is above the last", part)
		case len(cpus)+last-first+1 > 2*cpuMax:
			return fail("too many CPUs named")
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// FormatCPUList formats ascending CPUs for ParseCPUList: 0-3,8.
func FormatCPUList(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		text := strconv.Itoa(cpus[i])
		if j > i {
			text += "-" + strconv.Itoa(cpus[j])
		}
		parts = append(parts, text)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

func parseCPU(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err == nil && n >= cpuMax {
		err = strconv.ErrRange
	}
	return int(n), err
}
