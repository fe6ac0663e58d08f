//go:build linux

package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"

	"github.com/safchain/ethtool"
)

// Parameters by ethtool.
const (
	nicQueues     = "queues"
	nicRxRing     = "rx_ring"
	nicTxRing     = "tx_ring"
	nicRxUsecs    = "rx_usecs"
	nicTxUsecs    = "tx_usecs"
	nicAdaptive   = "adaptive_rx"
	nicOffloadPre = "offload "
)

var errHostOnly = errors.New("ethtool reaches the NICs of this host only")

// withNIC opens ethtool's socket, in the calling thread's network namespace.
func withNIC(root, where string, f func(e *ethtool.Ethtool, name, param string) error) error {
	name, param, _ := strings.Cut(where, "/")
	if root != "/" {
		return errHostOnly
	}
	e, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer e.Close()
	err = f(e, name, param)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		driver, failed := e.DriverName(name)
		if failed != nil {
			driver = "unknown"
		}
		return fmt.Errorf("driver %s has no %s to set: %w", driver, param, err)
	}
	return err
}

func readNIC(root, where string) (value string, err error) {
	err = withNIC(root, where, func(e *ethtool.Ethtool, name, param string) error {
		value, err = nicValue(e, name, param)
		return err
	})
	return value, err
}

func nicValue(e *ethtool.Ethtool, name, param string) (string, error) {
	number := func(n uint32, err error) (string, error) { return strconv.FormatUint(uint64(n), 10), err }
	if feature, is := strings.CutPrefix(param, nicOffloadPre); is {
		all, err := e.Features(name)
		on, known := all[feature]
		switch {
		case err != nil:
			return "", err
		case !known:
			return "", fmt.Errorf("%s has no offload %q; ethtool -k lists those it has: %w", name, feature, fs.ErrNotExist)
		case on:
			return "on", nil
		}
		return "off", nil
	}
	switch param {
	case nicQueues:
		c, err := e.GetChannels(name)
		return number(*channelCounts(&c)[0], err)
	case nicRxRing, nicTxRing:
		r, err := e.GetRing(name)
		if param == nicTxRing {
			return number(r.TxPending, err)
		}
		return number(r.RxPending, err)
	}
	c, err := e.GetCoalesce(name)
	switch param {
	case nicRxUsecs:
		return number(c.RxCoalesceUsecs, err)
	case nicTxUsecs:
		return number(c.TxCoalesceUsecs, err)
	}
	return number(c.UseAdaptiveRxCoalesce, err)
}

// channelCounts returns the numbers of queues: combined, or of receive and transmit if a driver
// separates them.
func channelCounts(c *ethtool.Channels) []*uint32 {
	if c.MaxCombined > 0 {
		return []*uint32{&c.CombinedCount}
	}
	return []*uint32{&c.RxCount, &c.TxCount}
}

func writeNIC(root, where, value string) error {
	return withNIC(root, where, func(e *ethtool.Ethtool, name, param string) error { return setNIC(e, name, param, value) })
}

func setNIC(e *ethtool.Ethtool, name, param, value string) error {
	if feature, is := strings.CutPrefix(param, nicOffloadPre); is {
		return e.Change(name, map[string]bool{feature: value == "on"})
	}
	wide, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return fmt.Errorf("%s takes a number, not %q", param, value)
	}
	n := uint32(wide)
	switch param {
	case nicQueues:
		c, err := e.GetChannels(name)
		if err != nil {
			return err
		}
		for _, count := range channelCounts(&c) {
			*count = n
		}
		_, err = e.SetChannels(name, c)
		return err
	case nicRxRing, nicTxRing:
		r, err := e.GetRing(name)
		if err != nil {
			return err
		}
		if param == nicTxRing {
			r.TxPending = n
		} else {
			r.RxPending = n
		}
		_, err = e.SetRing(name, r)
		return err
	}
	c, err := e.GetCoalesce(name)
	if err != nil {
		return err
	}
	switch param {
	case nicRxUsecs:
		c.RxCoalesceUsecs = n
	case nicTxUsecs:
		c.TxCoalesceUsecs = n
	default:
		c.UseAdaptiveRxCoalesce = n
	}
	_, err = e.SetCoalesce(name, c)
	return err
}
