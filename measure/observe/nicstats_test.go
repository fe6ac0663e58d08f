//go:build linux

package observe

import (
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/record"
)

func TestTellsOfLoss(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"bw_in_allowance_exceeded": true, "pps_allowance_exceeded": true, "conntrack_allowance_exceeded": true, "queue_0_tx_queue_stop": true,
		"rx_out_of_buffer": true, "rx_queue_1_drops": true, "rx_missed_errors": true, "port.rx_discards": true,
		"queue_0_tx_cnt": false, "rx_bytes": false, "conntrack_allowance_available": false, "peer_ifindex": false,
	} {
		if got := isDropCounter(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNICDelta(t *testing.T) {
	t.Parallel()
	risen := nicDelta(map[string]uint64{"b": 10, "a": 1, "reset": 9, "still": 4},
		map[string]uint64{"b": 17, "a": 3, "reset": 2, "still": 4, "new": 5})
	if want := []record.NICCounter{{Name: "a", Count: 2}, {Name: "b", Count: 7}}; !slices.Equal(risen, want) {
		t.Errorf("%+v, want %+v", risen, want)
	}
}

// TestNICCounters of a real driver: a veth counts the drops of its queues, and where none
// rose there is no row. A driver without counters is not missed.
func TestNICCounters(t *testing.T) {
	needs.Root(t)
	const name = "ceilingnic0"
	if text, err := exec.Command("ip", "link", "add", name, "type", "veth", "peer", "name", "ceilingnic1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	t.Cleanup(func() {
		if err := exec.Command("ip", "link", "del", name).Run(); err != nil {
			t.Error(err)
		}
	})
	s, err := newNICSampler(&side{iface: name})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if !slices.ContainsFunc(slices.Collect(maps.Keys(s.prev)), func(name string) bool { return strings.HasSuffix(name, "drops") }) {
		t.Errorf("veth counts %v", s.prev)
	}
	for _, width := range []int64{0, 1} {
		err := s.sample(tick{host: "h", widthNs: width}, func(row record.ObservedRow) { t.Errorf("nothing was dropped: %+v", row) })
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newNICSampler(&side{iface: "lo"}); !errors.Is(err, errNoNICCounters) {
		t.Error(err)
	}
	if _, err := newNICSampler(&side{iface: "no-such0"}); err == nil || !strings.Contains(err.Error(), "no-such0") {
		t.Error(err)
	}
}
