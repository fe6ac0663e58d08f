//go:build linux

package observe

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/safchain/ethtool"

	"ceiling/record"
)

// nicSampler samples a driver's counters (ethtool -S) of packets lost or held back. Drivers name
// and count them as they like, so it selects them by words in their names.
type nicSampler struct {
	e     *ethtool.Ethtool
	side  *side
	text  ethtool.EthtoolGStrings
	stats ethtool.EthtoolStats
	prev  map[string]uint64
}

// nicNamesMost bounds the counters of a row: a driver has some per queue.
const nicNamesMost = 64

// isDropCounter selects counters by name: ENA's bw_in_allowance_exceeded, mlx5's rx_out_of_buffer,
// virtio_net's rx_queue_0_drops.
func isDropCounter(name string) bool {
	return slices.ContainsFunc([]string{"exceeded", "drop", "discard", "miss", "no_buf", "nobuf", "out_of_buf", "overrun", "overflow",
		"queue_stop", "bad_csum"}, func(word string) bool { return strings.Contains(name, word) })
}

// errNoNICCounters says that a driver has none: then nothing is missing.
var errNoNICCounters = errors.New("the driver counts no packets that are lost or held back")

// newNICSampler opens ethtool's socket in a side's namespace.
func newNICSampler(of *side) (*nicSampler, error) {
	s := &nicSampler{side: of}
	err := of.in(func() (err error) {
		s.e, err = ethtool.NewEthtool()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open ethtool's socket: %w", err)
	}
	if s.prev, err = s.read(); err == nil && len(s.prev) == 0 {
		err = errNoNICCounters
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// read reads all counters and returns the selected ones.
func (s *nicSampler) read() (map[string]uint64, error) {
	all, err := s.e.StatsWithBuffer(s.side.iface, &s.text, &s.stats)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return nil, errNoNICCounters
	}
	if err != nil {
		return nil, fmt.Errorf("ethtool -S %s: %w", s.side.iface, err)
	}
	kept := map[string]uint64{}
	for name, count := range all {
		if isDropCounter(name) {
			kept[name] = count
		}
	}
	return kept, nil
}

func (s *nicSampler) sample(at tick, emit Emit) error {
	cur, err := s.read()
	if err != nil {
		return err
	}
	risen := nicDelta(s.prev, cur)
	s.prev = cur
	if !at.first() && len(risen) > 0 {
		emit(&record.NICRow{ObservedHead: at.head(record.KindNIC), Iface: s.side.iface, Side: s.side.name, Counters: risen})
	}
	return nil
}

// nicDelta returns what rose between two readings. A counter that went backwards belongs to a
// reset driver.
func nicDelta(prev, cur map[string]uint64) (risen []record.NICCounter) {
	for _, name := range slices.Sorted(maps.Keys(cur)) {
		before, was := prev[name]
		if was && cur[name] > before && len(risen) < nicNamesMost {
			risen = append(risen, record.NICCounter{Name: name, Count: int64(cur[name] - before)})
		}
	}
	return risen
}

func (s *nicSampler) close() { s.e.Close() }
