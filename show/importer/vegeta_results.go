package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"ceiling/show/face"
)

// hitsMax limits the results kept for the quantiles: 8 bytes each.
const hitsMax = 20_000_000

// isVegetaResults recognises a stream of results by its first bytes: a gob begins with its type's
// description, JSON with the keys that vegeta writes first.
func isVegetaResults(head []byte) bool {
	if bytes.HasPrefix(bytes.TrimSpace(head), []byte(`{"attack":`)) {
		return true
	}
	for _, part := range []string{"Result", "Attack", "Timestamp", "Latency", "BytesIn"} {
		if !bytes.Contains(head, []byte(part)) {
			return false
		}
	}
	return !bytes.HasPrefix(bytes.TrimSpace(head), []byte("{"))
}

// readVegetaResults reads the output of vegeta attack or vegeta encode --to json.
func readVegetaResults(in io.Reader) (Result, error) {
	var all vegetaHits
	if err := face.ReadResults(in, all.add); err != nil {
		return Result{}, errors.New(clean(err.Error()))
	}
	return all.result()
}

// vegetaHits adds up results the way vegeta report does (lib/metrics.go).
type vegetaHits struct {
	latencies         []int64
	statuses          map[string]uint64
	errors            []string
	bytes             uint64
	first, last, ends time.Time // first start, last start, last end
}

func (a *vegetaHits) add(h *face.Result) error {
	if h.Latency < 0 || int64(h.Latency) > countMax || h.BytesIn > countMax || a.bytes > countMax {
		return fmt.Errorf("result %d: a latency of %s and %d bytes cannot be", len(a.latencies)+1, h.Latency, h.BytesIn)
	}
	if len(a.latencies) == hitsMax {
		return fmt.Errorf("more than %d results; give vegeta report -type=json", hitsMax)
	}
	if len(a.latencies) == 0 {
		a.first, a.last, a.ends, a.statuses = h.Timestamp, h.Timestamp, h.Timestamp, map[string]uint64{}
	}
	a.latencies = append(a.latencies, int64(h.Latency))
	a.statuses[strconv.Itoa(int(h.Code))]++
	a.bytes += h.BytesIn
	if h.Timestamp.Before(a.first) {
		a.first = h.Timestamp
	}
	if h.Timestamp.After(a.last) {
		a.last = h.Timestamp
	}
	if end := h.Timestamp.Add(h.Latency); end.After(a.ends) {
		a.ends = end
	}
	if h.Error != "" && len(a.errors) < causesMax && !slices.Contains(a.errors, h.Error) {
		a.errors = append(a.errors, h.Error)
	}
	return nil
}

func (a *vegetaHits) result() (Result, error) {
	n := uint64(len(a.latencies))
	if n == 0 {
		return Result{}, errors.New("no result in the file")
	}
	slices.Sort(a.latencies)
	sum := 0.0
	for _, ns := range a.latencies {
		sum += float64(ns)
	}
	at := func(q float64) float64 { return float64(a.latencies[max(int(math.Ceil(q*float64(n)))-1, 0)]) }
	duration := float64(a.last.Sub(a.first))
	rate := float64(n)
	if duration > 0 {
		rate /= duration / 1e9
	}
	return fromVegeta(&vegetaDocument{
		Latencies: map[string]float64{"mean": sum / float64(n), "50th": at(.5), "90th": at(.9), "95th": at(.95), "99th": at(.99), "min": at(0),
			"max": at(1)},
		BytesIn: &vegetaBytes{a.bytes}, Duration: &duration, Wait: float64(a.ends.Sub(a.last)), Requests: &n, Rate: &rate, Statuses: a.statuses,
		Errors: a.errors,
	})
}
