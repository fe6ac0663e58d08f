package importer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"ceiling/internal/lazy"
)

var (
	autocannonRow   = lazy.Regexp(`(?m)^│ (Stat|Latency|Req/Sec) +│(.+)│ *$`)
	autocannonTotal = lazy.Regexp(`(?m)^([\d.]+)(k|M|)(?: total)? requests in ([\d.]+)s, ([\d.]+) (B|kB|MB|GB|TB) read$`)
	// Before version 4 a table has no lines; blanks divide its columns.
	autocannonOld     = lazy.Regexp(`(?m)^(Latency \(ms\)|Req/Sec) +([\d.]+) +([\d.]+) +([\d.]+) *$`)
	autocannonOldRank = lazy.Regexp(`(?m)^([\d.]+) {2,}([\d.]+) *$`)
	autocannonResets  = lazy.Regexp(`(?m)^request pipeline was resetted ([\d.]+)(k|M|) times?$`)
	autocannonStatus  = lazy.Regexp(`(?m)^(\d+) 2xx responses, (\d+) non 2xx responses$`)
	autocannonErrors  = lazy.Regexp(`(?m)^([\d.]+)(k|M|) errors \(([\d.]+)(k|M|) timeouts\)$`)
	autocannonLoad    = lazy.Regexp(`(?m)^ *(\d+) connections(?: with (\d+) pipelining factor)?$`)
	autocannonWorkers = lazy.Regexp(`(?m)^ *(\d+) workers$`)
)

// parseAutocannonText parses the tables that autocannon prints.
func parseAutocannonText(data []byte) (Result, error) {
	text := string(data)
	r := Result{Tool: Autocannon, From: FromSent, BodiesOnly: false}
	r.Caveats = append(r.Caveats,
		"closed loop unless it was given -R: stalls are under-represented (coordinated omission)",
		"resolution 1 ms: a 0 is anything below 1 ms")
	sum, err := match(autocannonTotal(), "… requests in …s, … read", text)
	if err != nil {
		return r, err
	}
	if r.DurationS, err = strconv.ParseFloat(sum[2], 64); err != nil || r.DurationS <= 0 {
		return r, fmt.Errorf("invalid duration: %s s", sum[2])
	}
	bytes, err := strconv.ParseFloat(sum[3], 64)
	if err != nil {
		return r, err
	}
	n := uint64(bytes * map[string]float64{"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[sum[4]])
	r.BytesRead = &n
	tables, err := autocannonTables(text)
	if err != nil {
		return r, err
	}
	rounded, step, err := thousands(sum[0], sum[1])
	if err != nil {
		return r, err
	}
	if err := r.autocannonCounts(text, rounded, step, tables["Req/Sec"]["Avg"]); err != nil {
		return r, err
	}
	if g := wrkHead().FindStringSubmatch(text); g != nil {
		r.Target = g[1]
	}
	if err := r.autocannonLoadOf(text); err != nil {
		return r, err
	}
	return r, r.autocannonTimes(tables["Latency"])
}

// autocannonTables parses the latency and rate rows by column.
func autocannonTables(text string) (map[string]map[string]string, error) {
	out, err := autocannonOldTables(text)
	if err != nil {
		return nil, err
	}
	var head []string
	for _, g := range autocannonRow().FindAllStringSubmatch(text, -1) {
		cells := strings.Split(g[2], "│")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if g[1] == "Stat" {
			head = cells
			continue
		}
		if len(cells) != len(head) || out[g[1]] != nil {
			return nil, fmt.Errorf("its row %s has no head of its own: it is cut off, or holds several runs", g[1])
		}
		out[g[1]] = map[string]string{}
		for i, cell := range cells {
			out[g[1]][head[i]] = cell
		}
	}
	if out["Latency"] == nil || out["Req/Sec"] == nil {
		return nil, errors.New("want the tables Latency and Req/Sec: it is cut off")
	}
	return out, nil
}

// autocannonOldTables parses those of before version 4.
func autocannonOldTables(text string) (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	for _, g := range autocannonOld().FindAllStringSubmatch(text, -1) {
		name := strings.TrimSuffix(g[1], " (ms)")
		if out[name] != nil {
			return nil, fmt.Errorf("two rows %s in it: it holds several runs", name)
		}
		out[name] = map[string]string{"Avg": g[2], "Stdev": g[3], "Max": g[4]}
	}
	if out["Latency"] != nil {
		_, ranks, _ := strings.Cut(text, "\nPercentile ")
		for _, g := range autocannonOldRank().FindAllStringSubmatch(ranks, -1) {
			out["Latency"][g[1]+"%"] = g[2]
		}
	}
	return out, nil
}

// thousands parses a count that may be rounded, "29k", and returns its resolution too.
func thousands(number, unit string) (n, step float64, err error) {
	n, err = strconv.ParseFloat(number, 64)
	factor := map[string]float64{"": 1, "k": 1e3, "M": 1e6}[unit]
	if err != nil || n*factor > countMax {
		return 0, 0, fmt.Errorf("invalid count %.40s%s", number, unit)
	}
	_, decimals, _ := strings.Cut(number, ".")
	return n * factor, factor / math.Pow10(min(len(decimals), 20)), nil
}

// autocannonCounts determines the number of responses. autocannon prints it only if some had a
// bad status; otherwise the mean of the one-second samples has more digits than the rounded
// count, and is used if the two agree.
func (r *Result) autocannonCounts(text string, rounded, step float64, mean string) error {
	perS, err := strconv.ParseFloat(strings.ReplaceAll(mean, ",", ""), 64)
	if err != nil || figure("Req/Sec", perS) != nil {
		return fmt.Errorf("a rate of %.40q cannot be", mean)
	}
	r.Statuses = map[string]uint64{}
	if g := autocannonStatus().FindStringSubmatch(text); g != nil {
		good, err := countOf(g[1])
		if err != nil {
			return err
		}
		bad, err := countOf(g[2])
		if err != nil {
			return err
		}
		r.Statuses["2xx"], r.Statuses["not 2xx"] = good, bad
		r.Requests = good + bad
	} else {
		count := rounded
		if sampled := perS * math.Round(r.DurationS); step > 1 && math.Abs(sampled-rounded) <= step {
			count = sampled
		} else if step > 1 {
			r.caveat("its count is rounded to %.0f requests", step)
		}
		r.Requests = uint64(math.Round(count))
		r.Statuses["2xx"] = r.Requests
	}
	if g := autocannonErrors().FindStringSubmatch(text); g != nil {
		failed, _, err := thousands(g[1], g[2])
		if err != nil {
			return err
		}
		timeouts, _, err := thousands(g[3], g[4])
		if err != nil {
			return err
		}
		if timeouts > failed {
			return fmt.Errorf("%.0f timeouts of %.0f errors cannot be", timeouts, failed)
		}
		r.fail("timeout", uint64(timeouts))
		r.fail("error", uint64(failed-timeouts))
	}
	if g := autocannonResets().FindStringSubmatch(text); g != nil {
		resets, _, err := thousands(g[1], g[2])
		if err != nil {
			return err
		}
		r.fail("reset", uint64(resets))
	}
	return nil
}

// autocannonLoadOf parses the lines above the tables, which autocannon prints only to a terminal.
func (r *Result) autocannonLoadOf(text string) error {
	g := autocannonLoad().FindStringSubmatch(text)
	if g == nil {
		r.caveat("the lines that repeat the URL, the connections and the workers are not in it")
		return nil
	}
	var err error
	if r.Connections, err = strconv.Atoi(g[1]); err != nil {
		return fmt.Errorf("%.40s connections cannot be", g[1])
	}
	r.Pipelining, r.Workers = 1, 1
	if g[2] != "" {
		if r.Pipelining, err = strconv.Atoi(g[2]); err != nil {
			return fmt.Errorf("a pipelining of %.40s cannot be", g[2])
		}
	}
	if g := autocannonWorkers().FindStringSubmatch(text); g != nil {
		if r.Workers, err = strconv.Atoi(g[1]); err != nil {
			return fmt.Errorf("%.40s workers cannot be", g[1])
		}
	}
	return nil
}

func (r *Result) autocannonTimes(row map[string]string) error {
	if r.Requests == 0 {
		return nil // it prints zeros then
	}
	for name, cell := range row {
		if name == "Stdev" {
			continue
		}
		ms, err := strconv.ParseFloat(strings.TrimSuffix(cell, " ms"), 64)
		if err != nil {
			return fmt.Errorf("a latency of %.40q cannot be", cell)
		}
		ns, err := nanoseconds("a latency", ms, 1e6)
		if err != nil {
			return err
		}
		percent, isPercent := strings.CutSuffix(name, "%")
		switch {
		case name == "Avg":
			r.MeanNs, r.MeanDigitNs = &ns, 1e6
		case name == "Max":
			r.MaxNs = &ns
		case isPercent:
			p, err := strconv.ParseFloat(percent, 64)
			if err != nil || !(p >= 0 && p <= 100) {
				return fmt.Errorf("invalid percentile %.40q", name)
			}
			r.Quantiles = append(r.Quantiles, Quantile{share(p), ns, 1e6})
		}
	}
	return nil
}
