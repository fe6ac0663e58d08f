package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// An answer is what a tool says of its run.
type answer struct {
	// Completed counts responses read whole, of status 2xx.
	Completed uint64
	// Bad counts requests that failed or had another status. What a tool cuts
	// off itself when its time is over is not in it.
	Bad uint64
	// ElapsedS is the time that the tool says its requests took, seconds.
	ElapsedS float64
	// P50 and P99 are quantiles of what the tool calls latency; 0 where it
	// says none. Resolution is the last digit that it prints.
	P50, P99, Resolution time.Duration
	// Ours is what only our document has.
	Ours *ownFigures
}

// A rate that a tool prints beside its count has to be their quotient within
// this share. Times are printed with as few as three digits (wrk: "2.00s"), and
// h2load divides by the time that it was asked for but prints the time until it
// had stopped, 1 % more on a busy machine. A wrong count is wrong by more.
const rateTolerance = 0.05

// check holds a printed rate against the requests that the tool counts in it
// and the time beside it.
func (a *answer) check(counted uint64, perS float64) error {
	if counted == 0 {
		return errors.New("no request was made")
	}
	if a.ElapsedS <= 0 {
		return errors.New("no time has passed")
	}
	if want := float64(counted) / a.ElapsedS; math.Abs(perS-want) > rateTolerance*want {
		return fmt.Errorf("it prints %.1f requests/s, but %d requests in %.3f s are %.1f", perS, counted, a.ElapsedS, want)
	}
	return nil
}

// match finds the one line that the pattern is for and answers its groups.
func match(pattern *regexp.Regexp, text string) ([]string, error) {
	all := pattern.FindAllStringSubmatch(text, 2)
	if len(all) != 1 {
		return nil, fmt.Errorf("%d lines like %q in the output, want 1", len(all), pattern)
	}
	return all[0][1:], nil
}

// integers parses counts as the tools print them: digits only.
func integers(texts ...string) ([]uint64, error) {
	var list []uint64
	for _, text := range texts {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// number parses a figure that is finite and not negative.
func number(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && (f < 0 || math.IsInf(f, 0) || math.IsNaN(f)) {
		err = fmt.Errorf("%s is no measurement", text)
	}
	return f, err
}

var (
	wrkTotal  = regexp.MustCompile(`(?m)^  (\d+) requests in ([\d.]+(?:us|ms|s|m|h)), [\d.]+[KMGTP]?B read$`)
	wrkRate   = regexp.MustCompile(`(?m)^Requests/sec: +([\d.]+)$`)
	wrkSocket = regexp.MustCompile(`(?m)^  Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)$`)
	wrkStatus = regexp.MustCompile(`(?m)^  Non-2xx or 3xx responses: (\d+)$`)
)

// parseWrk reads the text of wrk 4. Its "requests" are responses, whatever
// their status.
func parseWrk(out []byte) (answer, error) {
	text := string(out)
	total, err := match(wrkTotal, text)
	if err != nil {
		return answer{}, err
	}
	rate, err := match(wrkRate, text)
	if err != nil {
		return answer{}, err
	}
	counts, err := integers(total[0])
	if err != nil {
		return answer{}, err
	}
	elapsed, err := time.ParseDuration(total[1])
	if err != nil {
		return answer{}, err
	}
	perS, err := number(rate[0])
	if err != nil {
		return answer{}, err
	}
	a := answer{Completed: counts[0], ElapsedS: elapsed.Seconds()}
	if err := a.check(a.Completed, perS); err != nil {
		return answer{}, err
	}
	if g := wrkStatus.FindStringSubmatch(text); g != nil {
		n, err := integers(g[1])
		if err != nil {
			return answer{}, err
		}
		a.Bad += n[0]
		a.Completed -= min(n[0], a.Completed)
	}
	if g := wrkSocket.FindStringSubmatch(text); g != nil {
		n, err := integers(g[1:]...)
		if err != nil {
			return answer{}, err
		}
		a.Bad += n[0] + n[1] + n[2] + n[3]
	}
	return a, nil
}

var (
	h2loadTotal  = regexp.MustCompile(`(?m)^requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout$`)
	h2loadRate   = regexp.MustCompile(`(?m)^finished in ([\d.]+(?:us|ms|s|m|h)), ([\d.]+) req/s, `)
	h2loadStatus = regexp.MustCompile(`(?m)^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx$`)
)

// h2loadCut is how many responses may have a status and not be done: those that
// h2load was reading when its time was over. It is seen to be 1 or 2.
const h2loadCut = 16

// parseH2load reads the text of h2load. "failed" has "errored" and "timeout"
// in it.
func parseH2load(out []byte) (answer, error) {
	text := string(out)
	total, err := match(h2loadTotal, text)
	if err != nil {
		return answer{}, err
	}
	rate, err := match(h2loadRate, text)
	if err != nil {
		return answer{}, err
	}
	status, err := match(h2loadStatus, text)
	if err != nil {
		return answer{}, err
	}
	n, err := integers(append(total, status...)...)
	if err != nil {
		return answer{}, err
	}
	elapsed, err := time.ParseDuration(rate[0])
	if err != nil {
		return answer{}, err
	}
	perS, err := number(rate[1])
	if err != nil {
		return answer{}, err
	}
	done, succeeded, failed, ok, redirected := n[1], n[2], n[3], n[6], n[7]
	if done != succeeded+failed || ok+redirected < succeeded || ok+redirected > succeeded+h2loadCut {
		return answer{}, fmt.Errorf("%d done are not %d succeeded and %d failed with %d of status 2xx", done, succeeded, failed, ok)
	}
	a := answer{Completed: succeeded, Bad: failed + redirected, ElapsedS: elapsed.Seconds()}
	return a, a.check(done, perS)
}

var (
	abComplete = regexp.MustCompile(`(?m)^Complete requests: +(\d+)$`)
	abFailed   = regexp.MustCompile(`(?m)^Failed requests: +(\d+)$`)
	abKept     = regexp.MustCompile(`(?m)^Keep-Alive requests: +(\d+)$`)
	abTime     = regexp.MustCompile(`(?m)^Time taken for tests: +([\d.]+) seconds$`)
	abRate     = regexp.MustCompile(`(?m)^Requests per second: +([\d.]+) \[#/sec\] \(mean\)$`)
	abStatus   = regexp.MustCompile(`(?m)^Non-2xx responses: +(\d+)$`)
)

// parseAb reads the text of ab -k.
func parseAb(out []byte) (answer, error) {
	text := string(out)
	var groups []string
	for _, pattern := range []*regexp.Regexp{abComplete, abFailed, abKept} {
		g, err := match(pattern, text)
		if err != nil {
			return answer{}, err
		}
		groups = append(groups, g...)
	}
	n, err := integers(groups...)
	if err != nil {
		return answer{}, err
	}
	if n[0] != n[2] {
		return answer{}, fmt.Errorf("%d of %d requests were kept alive: it measured connections too", n[2], n[0])
	}
	var figures []float64
	for _, pattern := range []*regexp.Regexp{abTime, abRate} {
		g, err := match(pattern, text)
		if err != nil {
			return answer{}, err
		}
		f, err := number(g[0])
		if err != nil {
			return answer{}, err
		}
		figures = append(figures, f)
	}
	a := answer{Completed: n[0], Bad: n[1], ElapsedS: figures[0]}
	if g := abStatus.FindStringSubmatch(text); g != nil {
		other, err := integers(g[1])
		if err != nil {
			return answer{}, err
		}
		a.Bad += other[0]
		a.Completed -= min(other[0], a.Completed)
	}
	return a, a.check(n[0], figures[1])
}

var (
	heyTotal    = regexp.MustCompile(`(?m)^  Total:\t([\d.]+) secs$`)
	heyRate     = regexp.MustCompile(`(?m)^  Requests/sec:\t([\d.]+)$`)
	heyQuantile = regexp.MustCompile(`(?m)^  (50|99)% in ([\d.]+) secs$`)
	heyStatus   = regexp.MustCompile(`(?m)^  \[(\d{3})\]\t(\d+) responses$`)
	heyError    = regexp.MustCompile(`(?m)^  \[(\d+)\]\t(.+)$`)
)

// parseHey reads the text of hey. It keeps one million responses at most and
// counts the statuses of those; the rate is of all of them, so a run that was
// cut shows as a rate that does not fit.
func parseHey(out []byte) (answer, error) {
	summary, errorList, _ := strings.Cut(string(out), "\nError distribution:\n")
	total, err := match(heyTotal, summary)
	if err != nil {
		return answer{}, err
	}
	rate, err := match(heyRate, summary)
	if err != nil {
		return answer{}, err
	}
	a := answer{Resolution: 100 * time.Microsecond}
	if a.ElapsedS, err = number(total[0]); err != nil {
		return answer{}, err
	}
	perS, err := number(rate[0])
	if err != nil {
		return answer{}, err
	}
	for _, g := range heyStatus.FindAllStringSubmatch(summary, -1) {
		n, err := integers(g[2])
		if err != nil {
			return answer{}, err
		}
		if g[1][0] == '2' {
			a.Completed += n[0]
		} else {
			a.Bad += n[0]
		}
	}
	for _, g := range heyError.FindAllStringSubmatch(errorList, -1) {
		n, err := integers(g[1])
		if err != nil {
			return answer{}, err
		}
		a.Bad += n[0]
	}
	for _, g := range heyQuantile.FindAllStringSubmatch(summary, -1) {
		s, err := number(g[2])
		if err != nil {
			return answer{}, err
		}
		d := time.Duration(math.Round(s * 1e9))
		if g[1] == "50" {
			a.P50 = d
		} else {
			a.P99 = d
		}
	}
	return a, a.check(a.Completed+a.Bad, perS) // the rate counts the failed ones as well
}
