package importer

import (
	"errors"
	"fmt"
	"strconv"

	"ceiling/internal/lazy"
)

var (
	gowrkHead    = lazy.Regexp(`(?m)^ *(\d+) goroutine\(s\) running concurrently$`)
	gowrkTotal   = lazy.Regexp(`(?m)^ *(\d+) requests in ([\d.a-zµ]+), ([\d.]+)(bytes|KB|MB|GB) read$`)
	gowrkRate    = lazy.Regexp(`(?m)^ *Requests/sec:\s+([\d.]+)$`)
	gowrkOverall = lazy.Regexp(`(?m)^ *Overall Requests/sec:\s+([\d.]+)$`)
	gowrkTime    = lazy.Regexp(`(?m)^ *(Avg Req Time|Fastest Request|Slowest Request):\s+([\d.a-zµ]+)$`)
	gowrkErrors  = lazy.Regexp(`(?m)^ *Number of Errors:\s+(\d+)$`)
)

// parseGoWrk parses go-wrk's text.
func parseGoWrk(data []byte) (Result, error) {
	text := string(data)
	r := Result{Tool: GoWrk, From: FromSent, Loop: Closed, Pipelining: 1}
	head, err := match(gowrkHead(), "goroutine(s) running concurrently", text)
	if err != nil {
		return r, err
	}
	if r.Connections, err = strconv.Atoi(head[0]); err != nil {
		return r, fmt.Errorf("%.40s goroutines cannot be", head[0])
	}
	if g := wrkHead().FindStringSubmatch(text); g != nil {
		r.Target = g[1]
	}
	sum, err := match(gowrkTotal(), "requests in …", text)
	if err != nil {
		return r, err
	}
	rate, err := match(gowrkRate(), "Requests/sec", text)
	if err != nil {
		return r, err
	}
	if r.Requests, err = countOf(sum[0]); err != nil {
		return r, err
	}
	elapsed, _, err := goTime(sum[1])
	if err != nil || elapsed == 0 {
		return r, fmt.Errorf("invalid duration %.40s", sum[1])
	}
	r.DurationS = float64(elapsed) / 1e9
	unit := map[string]string{"bytes": "", "KB": "K", "MB": "M", "GB": "G"}[sum[3]]
	if r.BytesRead, err = binaryBytes(sum[2], unit); err != nil {
		return r, err
	}
	perS, err := strconv.ParseFloat(rate[0], 64)
	if err != nil {
		return r, err
	}
	// go-wrk.go, main: the total time of all requests divided by the goroutines.
	r.Caveats = append(r.Caveats,
		"closed loop: stalls are under-represented (coordinated omission)",
		"its time is the sum of all latencies over its goroutines and no clock's: rate × mean is the number of goroutines whatever happened, so Little's law tells nothing",
		"its percentiles are not read: runs are published in which the mean is above its 99.9%")
	r.holdRate(r.Requests, perS)
	if g := gowrkOverall().FindStringSubmatch(text); g != nil {
		overall, err := strconv.ParseFloat(g[1], 64)
		if err != nil || overall <= 0 {
			return r, fmt.Errorf("invalid rate %.40s", g[1])
		}
		r.DurationS = float64(r.Requests) / overall
	}
	return r, errors.Join(r.gowrkErrors(text), r.gowrkLatency(text))
}

// gowrkErrors parses the one count that includes every request without status 200 or a redirect.
func (r *Result) gowrkErrors(text string) error {
	r.Statuses = map[string]uint64{"200 or a redirection": r.Requests}
	g := gowrkErrors().FindStringSubmatch(text)
	if g == nil {
		return nil
	}
	n, err := countOf(g[1])
	if err != nil {
		return err
	}
	r.fail("no response, or another status than 200", n)
	return nil
}

func (r *Result) gowrkLatency(text string) error {
	for _, g := range gowrkTime().FindAllStringSubmatch(text, -1) {
		ns, digit, err := goTime(g[2])
		if err != nil {
			return err
		}
		switch g[1] {
		case "Avg Req Time":
			r.MeanNs, r.MeanDigitNs = &ns, digit
		case "Fastest Request":
			r.MinNs = &ns
		case "Slowest Request":
			r.MaxNs = &ns
		}
	}
	return nil
}
