package importer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/lazy"
)

var (
	vegetaHead = lazy.Regexp(`(?m)^ *Requests\s+\[total, rate(?:, throughput)?\]\s`)
	vegetaRow  = lazy.Regexp(`(?m)^ *(Requests|Duration|Latencies|Bytes In|Status Codes)\s+\[([^\]]+)\]\s+(.*?)\s*$`)
)

// parseVegetaText parses vegeta's text report: rows whose column names are in brackets and differ
// between versions.
func parseVegetaText(data []byte) (Result, error) {
	text := string(data)
	rows, err := vegetaRows(text)
	if err != nil {
		return Result{}, err
	}
	d := vegetaDocument{Latencies: map[string]float64{}, Statuses: map[string]uint64{}}
	requests, err := countOf(rows["Requests"]["total"])
	if err != nil {
		return Result{}, err
	}
	rate, err := strconv.ParseFloat(rows["Requests"]["rate"], 64)
	if err != nil {
		return Result{}, fmt.Errorf("a rate of %.40q cannot be", rows["Requests"]["rate"])
	}
	attack, _, err := goTime(rows["Duration"]["attack"])
	if err != nil {
		return Result{}, err
	}
	wait, _, err := goTime(rows["Duration"]["wait"])
	if err != nil {
		return Result{}, err
	}
	duration := float64(attack)
	d.Requests, d.Rate, d.Duration, d.Wait = &requests, &rate, &duration, float64(wait)
	names := map[string]string{"50": "50th", "90": "90th", "95": "95th", "99": "99th", "mean": "mean", "min": "min", "max": "max"}
	for column, cell := range rows["Latencies"] {
		ns, _, err := goTime(cell)
		if err != nil {
			return Result{}, err
		}
		if name := names[column]; name != "" {
			d.Latencies[name] = float64(ns)
		}
	}
	if cell, ok := rows["Bytes In"]["total"]; ok {
		n, err := countOf(cell)
		if err != nil {
			return Result{}, err
		}
		d.BytesIn = &vegetaBytes{n}
	}
	for code, cell := range rows["Status Codes"] {
		if d.Statuses[code], err = countOf(cell); err != nil {
			return Result{}, err
		}
	}
	_, set, _ := strings.Cut(text, "Error Set:")
	set, _, _ = strings.Cut(set, "\n\n")
	for line := range strings.Lines(set) {
		if line = strings.TrimSpace(line); line != "" && len(d.Errors) < causesMax {
			d.Errors = append(d.Errors, line)
		}
	}
	return fromVegeta(&d)
}

// vegetaRows parses the rows by column name; status codes are pairs.
func vegetaRows(text string) (map[string]map[string]string, error) {
	rows := map[string]map[string]string{}
	for _, g := range vegetaRow().FindAllStringSubmatch(text, -1) {
		if rows[g[1]] != nil {
			return nil, fmt.Errorf("two rows of %s in it: it holds several runs", g[1])
		}
		rows[g[1]] = map[string]string{}
		if g[1] == "Status Codes" {
			for _, pair := range strings.Fields(g[3]) {
				code, n, found := strings.Cut(pair, ":")
				if _, err := strconv.ParseUint(code, 10, 16); !found || err != nil {
					return nil, fmt.Errorf("invalid status count %.40q", pair)
				}
				rows[g[1]][code] = n
			}
			continue
		}
		names, cells := strings.Split(g[2], ", "), strings.Split(g[3], ", ")
		if len(names) != len(cells) {
			return nil, fmt.Errorf("%d columns and %d figures in its row %s", len(names), len(cells), g[1])
		}
		for i, name := range names {
			rows[g[1]][name] = cells[i]
		}
	}
	for _, name := range []string{"Requests", "Duration", "Latencies", "Status Codes"} {
		if rows[name] == nil {
			return nil, errors.New("the row " + name + " is missing: it is cut off")
		}
	}
	return rows, nil
}

// goTime parses a duration in Go's format, "1m39.643s", and returns a lower bound of its
// resolution.
func goTime(text string) (ns, digit int64, err error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > countMax {
		return 0, 0, fmt.Errorf("invalid time %.40q", text)
	}
	digit = 1
	for v := int64(d); v != 0 && v%10 == 0 && digit < 1e9; v /= 10 {
		digit *= 10
	}
	if d == 0 {
		digit = int64(time.Microsecond)
	}
	return int64(d), digit, nil
}
