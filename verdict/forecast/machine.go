// Package forecast says what a measured request would allow on other hardware: from what it costs, the
// rate at which each resource of a machine is used up.
//
// It is arithmetic, not a model of the server: a rate is a resource divided by what a request takes
// of it. What that leaves out is measured on published results (check.go), and the intervals of a
// forecast are those of its errors there.
package forecast

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ceiling/internal/unit"
)

// Machine is what a forecast knows of one.
type Machine struct {
	Name  string  `json:"name"`
	VCPUs float64 `json:"vcpus"`
	// Gbit/s that it always has, and that it has for a while; 0 unknown.
	BaselineGbps float64 `json:"baseline_gbps,omitempty"`
	BurstGbps    float64 `json:"burst_gbps,omitempty"`
	// PacketsPerS in each direction; 0 unknown.
	PacketsPerS float64 `json:"packets_per_s,omitempty"`
	// Dollars per hour; 0 unknown.
	Dollars float64 `json:"dollars_per_hour,omitempty"`
	// Source of these figures, with its date.
	Source string `json:"source"`
}

//go:embed machines.csv
var catalogue string

// Machines returns the catalogue.
func Machines() ([]Machine, error) {
	r := csv.NewReader(strings.NewReader(catalogue))
	r.Comment, r.FieldsPerRecord = '#', 7
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("machines.csv: %w", err)
	}
	var list []Machine
	for _, row := range rows {
		m := Machine{Name: row[0], Source: row[5] + ", " + row[6]}
		for i, into := range []*float64{&m.VCPUs, &m.BaselineGbps, &m.BurstGbps, &m.Dollars} {
			if *into, err = strconv.ParseFloat(row[1+i], 64); err != nil {
				return nil, fmt.Errorf("machines.csv: %s: %w", m.Name, err)
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// Named returns a machine of the catalogue.
func Named(name string) (*Machine, error) {
	list, err := Machines()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list {
		if list[i].Name == name {
			return &list[i], nil
		}
		names = append(names, list[i].Name)
	}
	return nil, fmt.Errorf("unknown machine %s: there are %s; describe another one, as in --here 64cores,50Gbps,3.5$/h", name, strings.Join(names, ", "))
}

// ParseMachine reads "64cores,50Gbps" with an optional burst, limit of packets and price:
// "64cores,12.5Gbps:50Gbps,2Mpps,3.5$/h".
func ParseMachine(text string) (*Machine, error) {
	m := &Machine{Name: "the machine given", Source: "as given"}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		var err error
		switch {
		case strings.HasSuffix(part, "cores") || strings.HasSuffix(part, "core"):
			m.VCPUs, err = strconv.ParseFloat(strings.TrimSuffix(strings.TrimSuffix(part, "s"), "core"), 64)
		case strings.HasSuffix(part, "pps"):
			var n int64
			n, err = unit.ParseCount(strings.TrimSuffix(part, "pps"))
			m.PacketsPerS = float64(n)
		case strings.HasSuffix(part, "$/h"):
			m.Dollars, err = strconv.ParseFloat(strings.TrimSuffix(part, "$/h"), 64)
		default:
			baseline, burst, both := strings.Cut(part, ":")
			if m.BaselineGbps, err = gigabits(baseline); err == nil && both {
				m.BurstGbps, err = gigabits(burst)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w; describe a machine as in 64cores,50Gbps or 64cores,12.5Gbps:50Gbps,3.5$/h", part, err)
		}
	}
	switch {
	case !(m.VCPUs > 0) || m.VCPUs > 1e6:
		return nil, errors.New("the number of cores must be 1 to 1,000,000; describe a machine as in 64cores,50Gbps")
	case !(m.BaselineGbps >= 0) || !(m.BurstGbps >= 0) || !(m.Dollars >= 0):
		return nil, errors.New("speed and price cannot be negative; describe a machine as in 64cores,50Gbps,3.5$/h")
	}
	m.BurstGbps = max(m.BurstGbps, m.BaselineGbps)
	return m, nil
}

func gigabits(text string) (float64, error) {
	bits, err := unit.ParseBits(text)
	return float64(bits) / 1e9, err
}
