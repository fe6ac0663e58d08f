//go:build linux

package stacks

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/profiles"
)

// cpuNsOf is the CPU time that a process has used, by the kernel's own account
// (proc_pid_schedstat: the first figure of each thread).
func cpuNsOf(t *testing.T, pid int) (sum int64) {
	t.Helper()
	tids, err := threadsOf([]int{pid})
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(tid) + "/schedstat")
		if err != nil {
			t.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += ns
	}
	return sum
}

// The profile of blocks has the planted shares in each of them, as much CPU as the
// kernel accounts to the process, and nothing of the time between.
func TestProfileOfBlocks(t *testing.T) {
	needs.Quiet(t)
	pid, _ := plant(t, "burn")
	c := samplerOf(t, pid)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.Pause()
	var used [2]int64
	for block := range used {
		time.Sleep(300 * time.Millisecond) // must not be seen
		before := cpuNsOf(t, pid)
		c.Mark(block)
		time.Sleep(1500 * time.Millisecond)
		c.Pause()
		used[block] = cpuNsOf(t, pid) - before
	}
	c.Stop()
	tables := NewTables()
	defer tables.Close()
	found := Summarize(tables, c, nil)
	if found.OnProfile == nil || found.OffProfile != nil {
		t.Fatalf("profiles %v and %v", found.OnProfile, found.OffProfile)
	}
	packed, err := profiles.Bytes(found.OnProfile)
	if err != nil {
		t.Fatal(err)
	}
	p, err := profiles.Parse(packed)
	if err != nil {
		t.Fatal(err)
	}
	s := profiles.Summarize(p, 1, 2, profiles.Innermost)
	if got := float64(s.Processes[strconv.Itoa(pid)]); got != float64(s.Total) || got == 0 {
		t.Errorf("of %d ns the process has %.0f", s.Total, got)
	}
	of := func(name string, block int) float64 {
		for i := range s.Functions {
			if strings.HasSuffix(s.Functions[i].Name, name) {
				return float64(s.Functions[i].Blocks[block])
			}
		}
		return 0
	}
	for block := range used {
		all := float64(s.Blocks[block])
		if share := all / float64(used[block]); math.Abs(share-1) > .15 {
			t.Errorf("block %d: %.0f ns by samples, %d by the kernel's account", block, all, used[block])
		}
		// The rest is the clock that both read.
		if share := of("plantedHot", block) / (of("plantedHot", block) + of("plantedCool", block)); !(math.Abs(share-.75) < .2) {
			t.Errorf("block %d: plantedHot has %.2f of both, planted was 0.75", block, share)
		}
	}
	hot, cool := of("plantedHot", 0)+of("plantedHot", 1), of("plantedCool", 0)+of("plantedCool", 1)
	if share := hot / (hot + cool); !(math.Abs(share-.75) < .1) {
		t.Errorf("plantedHot has %.2f of both, planted was 0.75", share)
	}
	if lasted := c.lasted.Seconds(); lasted < 2.9 || lasted > 4 {
		t.Errorf("sampled for %.1f s, of which the pauses are none", lasted)
	}
}

func TestMarkAfterTheEnd(t *testing.T) {
	pid, _ := plant(t, "burn")
	c := samplerOf(t, pid)
	c.Mark(0) // before the start
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.Stop()
	c.Mark(1)
	c.Pause()
}
