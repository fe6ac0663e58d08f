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

// nicParam returns a parameter by ethtool of "eth0/rx_ring", in the calling thread's network
// namespace, after setting it to a value that is not nil.
func nicParam(where string, to *string) (value string, err error) {
	name, param, _ := strings.Cut(where, "/")
	e, err := ethtool.NewEthtool()
	if err != nil {
		return "", err
	}
	defer e.Close()
	if feature, is := strings.CutPrefix(param, nicOffloadPre); is {
		value, err = offload(e, name, feature, to)
	} else {
		value, err = nicNumber(e, name, param, to)
	}
	if errors.Is(err, syscall.EOPNOTSUPP) {
		driver, failed := e.DriverName(name)
		if failed != nil {
			driver = "unknown"
		}
		err = fmt.Errorf("driver %s has no %s to set: %w: %w", driver, param, err, errAbsent)
	}
	return value, err
}

func offload(e *ethtool.Ethtool, name, feature string, to *string) (string, error) {
	if to != nil {
		return *to, e.Change(name, map[string]bool{feature: *to == "on"})
	}
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

func nicNumber(e *ethtool.Ethtool, name, param string, to *string) (string, error) {
	switch param {
	case nicQueues:
		return number(name, to, e.GetChannels, e.SetChannels, channelCounts)
	case nicRxRing:
		return number(name, to, e.GetRing, e.SetRing, func(r *ethtool.Ring) []*uint32 { return []*uint32{&r.RxPending} })
	case nicTxRing:
		return number(name, to, e.GetRing, e.SetRing, func(r *ethtool.Ring) []*uint32 { return []*uint32{&r.TxPending} })
	}
	return number(name, to, e.GetCoalesce, e.SetCoalesce, func(c *ethtool.Coalesce) []*uint32 {
		of := map[string]*uint32{nicRxUsecs: &c.RxCoalesceUsecs, nicTxUsecs: &c.TxCoalesceUsecs, nicAdaptive: &c.UseAdaptiveRxCoalesce}
		return []*uint32{of[param]}
	})
}

// channelCounts returns the numbers of queues: combined, or by direction if a driver separates them.
func channelCounts(c *ethtool.Channels) []*uint32 {
	if c.MaxCombined > 0 {
		return []*uint32{&c.CombinedCount}
	}
	return []*uint32{&c.RxCount, &c.TxCount}
}

// number returns the first of some numbers that a request of the driver gets, or sets all of them.
func number[T any](name string, to *string, get func(string) (T, error), set func(string, T) (T, error),
	of func(*T) []*uint32) (string, error) {
	all, err := get(name)
	if err != nil {
		return "", err
	}
	numbers := of(&all)
	if to == nil {
		return strconv.FormatUint(uint64(*numbers[0]), 10), nil
	}
	n, err := strconv.ParseUint(*to, 10, 32)
	if err != nil {
		return "", fmt.Errorf("%q is not a number", *to)
	}
	for _, to := range numbers {
		*to = uint32(n)
	}
	_, err = set(name, all)
	return *to, err
}
