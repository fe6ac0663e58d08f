package importer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	omission = "closed loop: stalls are under-represented (coordinated omission)"
	// wholeMs is the resolution of ab and autocannon.
	wholeMs = "resolution 1 ms: a 0 is anything below 1 ms"

	wrkHead  = `Running \S+ test @ (?P<target>\S+)`
	wrkLoad  = `(?P<workers>\d+) threads and (?P<connections>\d+) connections`
	quantile = `(?P<percent>[\d.]+)% +(?P<quantile>[\d.]+(?:us|ms|s|m|h))`
	recorded = "(HdrHistogram - Recorded Latency)"
	// wrk2Mark tells wrk2 from wrk.
	wrk2Mark = `.*Thread calibration: .*|.*\(HdrHistogram - Recorded Latency\).*`
)

// wrkLines are those that wrk and wrk2 print.
var wrkLines = []line{
	one("Running … test @ URL", wrkHead),
	one("threads and connections", wrkLoad),
	one("Latency", `Latency +(?P<mean>-?[\d.a-z]+) +\S+ +(?P<max>-?[\d.a-z]+) +\S+%`),
	one("requests in …", `(?P<requests>\d+) requests in (?P<elapsed>[\d.]+(?:us|ms|s|m|h)), (?P<read>[\d.]+[KMGTP]?)B read`),
	one("Requests/sec", `Requests/sec: +(?P<rate>[\d.]+)`),
	some(`Transfer/sec: +(?P<transfer>[\d.]+[KMGTP]?)B`),
	some(`Socket errors: connect (?P<connect>\d+), read (?P<receive>\d+), write (?P<write>\d+), timeout (?P<timeout>\d+)`),
	some(`Non-2xx or 3xx responses: (?P<bad>\d+)`),
} // read-only

// formats are the texts that are read.
var formats = []format{
	{
		tool: Wrk, from: FromSent, loop: Closed, mark: wrkLoad, not: wrk2Mark,
		// wrk.c, main: stats_correct with runtime / responses per connection.
		caveats: []string{
			"closed loop: a stalled server is sent less; wrk adds values for what it would have sent at the mean interval of each connection, which is an estimate and not a schedule: its mean and its percentiles above the median may be far above what it measured",
			"latency counts from sending; the time a request waited for its connection is not in it",
		},
		lines:  wrkLines,
		table:  []line{within("Latency Distribution", "", quantile)},
		finish: finishWrk,
	}, {
		tool: Wrk2, from: FromDue, loop: Open, mark: wrk2Mark,
		caveats: []string{
			"its timer is 1 ms wide: a latency below that says nothing",
			"the output lacks the target rate: a missed schedule shows only in the latency",
		},
		// The table that --u_latency adds is the service time.
		lines:  wrkLines,
		table:  []line{within(recorded, "Latency Distribution", quantile)},
		finish: finishWrk2,
	}, {
		// go-wrk.go, main: the time is that of all requests divided by the goroutines.
		tool: GoWrk, from: FromSent, loop: Closed, pipelining: 1, mark: `\d+ goroutine\(s\) running concurrently`,
		caveats: []string{
			omission,
			"its time is the sum of all latencies over its goroutines and no clock's: rate × mean is the number of goroutines whatever happened, so Little's law tells nothing",
			"its percentiles are not read: runs are published in which the mean is above its 99.9%",
		},
		lines: []line{
			one("goroutine(s) running concurrently", `(?P<connections>\d+) goroutine\(s\) running concurrently`),
			some(wrkHead),
			one("requests in …", `(?P<requests>\d+) requests in (?P<elapsed>[\d.a-zµ]+), (?P<read>[\d.]+[KMG]?)(?:B|bytes) read`),
			one("Requests/sec", `Requests/sec:\s+(?P<rate>[\d.]+)`),
			some(`Overall Requests/sec:\s+(?P<overall>[\d.]+)`),
			some(`Avg Req Time:\s+(?P<mean>[\d.a-zµ]+)`),
			some(`Fastest Request:\s+(?P<min>[\d.a-zµ]+)`),
			some(`Slowest Request:\s+(?P<max>[\d.a-zµ]+)`),
			// Every request without status 200 or a redirect is in this count.
			some(`Number of Errors:\s+(?P<count>\d+)`),
		},
		finish: finishGoWrk,
	}, {
		tool: Hey, from: FromSent, loop: Closed, pipelining: 1, bodiesOnly: true, mark: `Total:\t[\d.]+ secs`,
		caveats: []string{
			omission + "; -q is per worker and does not change that",
			"resolution 0.1 ms: a 0 is anything below 0.05 ms",
			"the output lacks the URL and the number of connections",
		},
		lines: []line{
			one("Total", `Total:\t(?P<elapsed_s>[\d.]+) secs`),
			one("Requests/sec", `Requests/sec:\t(?P<rate>[\d.]+)`),
			some(`Slowest:\t(?P<max_s>[\d.]+) secs`),
			some(`Fastest:\t(?P<min_s>[\d.]+) secs`),
			some(`Average:\t(?P<mean_s>[\d.]+) secs`),
			some(`Total data:\t(?P<read>\d+) bytes`),
			some(`(?P<percent>\d+)%+ in (?P<quantile_s>[\d.]+) secs`),
			within("", "\nError distribution:", `\[(?P<status>\d{3})\]\t(?P<responses>\d+) responses`),
			within("\nError distribution:", "", `\[(?P<count>\d+)\]\t(?P<cause>.+?)`),
		},
		finish: finishHey,
	}, {
		tool: Ab, from: FromSent, loop: Closed, workers: 1, pipelining: 1, mark: `This is ApacheBench.*`,
		caveats: []string{
			omission,
			wholeMs + "; its finer \"Time per request\" is connections × time ÷ requests and no measurement of one",
			"ab is one thread: with that thread full the rate is ab's own",
		},
		lines: []line{
			one("Concurrency Level", `Concurrency Level: +(?P<connections>\d+)`),
			one("Time taken for tests", `Time taken for tests: +(?P<elapsed_s>[\d.]+) seconds`),
			one("Complete requests", `Complete requests: +(?P<requests>\d+)`),
			one("Requests per second", `Requests per second: +(?P<rate>[\d.]+) \[#/sec\] \(mean\)`),
			some(`Server Hostname: +(?P<host>\S+)`),
			some(`Server Port: +(?P<port>\d+)`),
			some(`Document Path: +(?P<path>\S+)`),
			some(`\(Connect: (?P<connect>\d+), Receive: (?P<receive>\d+), Length: (?P<length>\d+), Exceptions: (?P<exceptions>\d+)\)`),
			some(`Non-2xx responses: +(?P<bad>\d+)`),
			some(`Keep-Alive requests: +(?P<kept>\d+)`),
			some(`Total transferred: +(?P<read>\d+) bytes`),
			some(`Transfer rate: +(?P<transfer>[\d.]+ \[K)bytes/sec\] received`),
			some(`Total: +(?P<min_ms>\d+) +(?P<mean_ms>\d+) +[\d.]+ +\d+ +(?P<max_ms>\d+)`),
			within("Percentage of the requests served", "", `(?P<percent>\d+)% +(?P<quantile_ms>\d+)`),
		},
		finish: finishAb,
	}, {
		tool: H2load, from: FromSent, loop: Closed, mark: `finished in \S+, [\d.]+ req/s, .*|requests: \d+ total, .*`,
		caveats: []string{omission, "the output lacks the URL and the requests in flight on a connection (-m)"},
		lines: []line{
			one("requests: … done", `requests: (?P<total>\d+) total, (?P<started>\d+) started, \d+ done, (?P<succeeded>\d+) succeeded, (?P<failed>\d+) failed, `+
				`(?P<errored>\d+) errored, (?P<timeout>\d+) timeout`),
			one("finished in …", `finished in (?P<elapsed>[\d.]+(?:us|ms|s|m|h)), (?P<rate>[\d.]+) req/s, (?P<transfer>[\d.]+[KMGT]?)B/s`),
			one("status codes", `status codes: (?P<class2>\d+) 2xx, (?P<class3>\d+) 3xx, (?P<class4>\d+) 4xx, (?P<class5>\d+) 5xx`),
			some(`traffic: [^(]+\((?P<read>\d+)\) total.*`),
			some(`spawning thread #\d+: (?P<clients>\d+) total client\(s\).*`),
			// 1.62 and later print a median and two percentiles.
			some(`(?:time for )?request *: +(?P<min>\S+) +(?P<max>\S+) +(?P<mean>\S+) +\S+ +\S+`),
			some(`(?:time for )?request *: +(?P<min>\S+) +(?P<max>\S+) +(?P<p50>\S+) +(?P<p95>\S+) +(?P<p99>\S+) +(?P<mean>\S+) +\S+ +\S+`),
		},
		finish: finishH2load,
	}, {
		tool: Autocannon, from: FromSent,
		mark:    `│ (?:Latency|Req/Sec) +│.*|(?:Latency \(ms\)|Req/Sec) +[\d.]+ +[\d.]+ +[\d.]+`,
		caveats: []string{"closed loop unless it was given -R: stalls are under-represented (coordinated omission)", wholeMs},
		lines: []line{
			one("… requests in …s, … read", `(?P<about>[\d.]+[kM]?)(?: total)? requests in (?P<elapsed>[\d.]+s), (?P<read_1000>[\d.]+ [kMGT]?)B read`),
			some(`│ Latency +│ (?P<p2d5_ms>[\d.]+) ms +│ (?P<p50_ms>[\d.]+) ms +│ (?P<p97d5_ms>[\d.]+) ms +│ (?P<p99_ms>[\d.]+) ms +│ ` +
				`(?P<mean_ms>[\d.]+) ms +│ [\d.]+ ms +│ (?P<max_ms>[\d.]+) ms +│`),
			some(`│ Req/Sec +(?:│ [\d.,]+ +){4}│ (?P<sampled>[\d.,]+) +│.*`),
			// Before version 4 a table has no lines; blanks divide its columns.
			some(`Latency \(ms\) +(?P<mean_ms>[\d.]+) +[\d.]+ +(?P<max_ms>[\d.]+)`),
			some(`Req/Sec +(?P<sampled>[\d.]+) +[\d.]+ +[\d.]+`),
			within("\nPercentile ", "", `(?P<percent>[\d.]+) {2,}(?P<quantile_ms>[\d.]+)`),
			some(`request pipeline was resetted (?P<resets>[\d.]+[kM]?) times?`),
			some(`(?P<good>\d+) 2xx responses, (?P<bad>\d+) non 2xx responses`),
			some(`(?P<errors>[\d.]+[kM]?) errors \((?P<timeouts>[\d.]+[kM]?) timeouts\)`),
			some(`(?P<connections>\d+) connections(?: with (?P<pipelining>\d+) pipelining factor)?`),
			some(`(?P<workers>\d+) workers`),
			some(wrkHead),
		},
		finish: finishAutocannon,
	},
} // read-only

// finishWrk and finishWrk2 add what the lines of both say of errors, and whether there are quantiles.
func finishWrk(t *text) error {
	r := t.r
	if t.bad > r.Requests {
		return fmt.Errorf("%d responses with a bad status of %d cannot be", t.bad, r.Requests)
	}
	r.Statuses = map[string]uint64{"below 400": r.Requests - t.bad}
	if t.bad > 0 {
		r.Statuses["400 or more"] = t.bad
	}
	lost, err := t.counts("connect", "receive", "write", "timeout")
	if err != nil {
		return err
	}
	for i, what := range []string{"connect", "read", "write", "timeout"} {
		r.fail(what, lost[i])
	}
	if len(r.Errors) > 0 {
		r.caveat("its socket errors are events, not requests: one that failed may be counted more than once, or with others")
	}
	if !strings.Contains(t.whole, "Latency Distribution") {
		r.caveat("made without --latency: it has no quantiles")
	} else if len(r.Quantiles) == 0 && r.Requests > 0 {
		return errors.New("no quantile below Latency Distribution")
	}
	r.holdRate(r.Requests, t.perS)
	// The rate has more digits than the time: if they agree, derive the time from it.
	if s := float64(r.Requests) / t.perS; math.Abs(s-r.DurationS)*1e9 <= float64(t.elapsedDigitNs) {
		r.DurationS = s
	}
	return nil
}

func finishWrk2(t *text) error {
	if t.r.DurationS < 20 {
		t.r.caveat("a run of %.3g s: wrk2 spends the first 10 s on calibration and does not count them in the latency", t.r.DurationS)
	}
	return finishWrk(t)
}

func finishGoWrk(t *text) error {
	r := t.r
	r.holdRate(r.Requests, t.perS)
	r.Statuses = map[string]uint64{"200 or a redirection": r.Requests}
	r.fail("no response, or another status than 200", t.count)
	if t.others["overall"] == "" {
		return nil
	}
	overall, err := strconv.ParseFloat(t.others["overall"], 64)
	if err != nil || overall <= 0 {
		return fmt.Errorf("invalid rate %.40s", t.others["overall"])
	}
	r.DurationS = float64(r.Requests) / overall
	return nil
}

// heyKeeps is the number of results that hey stores (requester.go, maxRes).
const heyKeeps = 1_000_000

func finishHey(t *text) (err error) {
	r := t.r
	if r.Requests, err = total(r.Statuses); err != nil {
		return err
	}
	switch kept := r.Requests + r.Failed(); {
	case kept == 0:
		return errors.New("neither a status nor an error in it")
	case kept >= heyKeeps:
		r.RateDiffers = true
		r.caveat("hey keeps one million results: counts and latencies are only of the first ones, its rate (%.6g/s) of all", t.perS)
	default:
		r.holdRate(kept, t.perS)
	}
	return nil
}

// finishAb counts the request outcomes. ab counts bodies that differ in length from the first one as
// failures; every other tool counts them as responses. One request may have several causes: a
// connection that the server resets is an exception, an error of receive, and another length (ab.c).
// Only those of receive are complete requests; one that could not connect is tried again.
func finishAb(t *text) error {
	r, complete := t.r, t.r.Requests
	n, err := t.counts("connect", "receive", "length", "exceptions", "kept")
	if err != nil {
		return err
	}
	connect, receive, length, exceptions, kept := n[0], n[1], n[2], n[3], n[4]
	if kept > complete {
		return fmt.Errorf("%d kept alive of %d requests cannot be", kept, complete)
	}
	if t.others["host"] != "" {
		scheme := "http://"
		if strings.Contains(t.whole, "\nSSL/TLS Protocol:") {
			scheme = "https://"
		}
		r.Target = scheme + t.others["host"] + ":" + t.others["port"] + t.others["path"]
	}
	r.fail("connect", connect)
	r.fail("receive", receive)
	r.fail("exception", exceptions-min(receive, exceptions))
	if other := length - min(receive, length); other > 0 {
		r.caveat("%d responses had another length than the first: ab calls them failed, which a page of varying length is not (ab -l)", other)
	}
	r.Requests = complete - min(receive, complete)
	bad := min(t.bad, r.Requests)
	r.Statuses = map[string]uint64{"2xx": r.Requests - bad}
	if bad > 0 {
		r.Statuses["not 2xx"] = bad
	}
	r.KeptAlive = &kept
	if kept < complete {
		r.caveat("%d of %d requests opened their own connection (ab without -k): the rate measures connections as much as requests",
			complete-kept, complete)
	}
	r.holdRate(complete, t.perS)
	return nil
}

// finishH2load counts the request outcomes. By src/h2load.cc (nghttp2 1.52 to 1.65)
//
//   - total is succeeded + failed, by construction;
//   - failed are errored, those without a response, and the complete responses with a bad status;
//   - timeout is a part of errored, as are requests that were never sent: done has neither;
//   - a status counts when it is read, for requests started in the measured time.
func finishH2load(t *text) error {
	n, err := t.counts("total", "started", "succeeded", "failed", "errored", "timeout", "class2", "class3", "class4", "class5")
	if err != nil {
		return err
	}
	all, started, succeeded, failed, errored, timeouts, classes := n[0], n[1], n[2], n[3], n[4], n[5], n[6:]
	heads := classes[0] + classes[1] + classes[2] + classes[3]
	switch warm := strings.Contains(t.whole, " warm-up time") && !strings.Contains(t.whole, " 0s of warm-up time"); {
	case all != succeeded+failed:
		return fmt.Errorf("%d requests in total are not %d succeeded and %d failed", all, succeeded, failed)
	case errored > failed:
		return fmt.Errorf("%d errored of %d failed cannot be", errored, failed)
	case warm: // requests of the warm-up end in the measured time: some have no status, some are not started
	case heads > started:
		return fmt.Errorf("%d statuses of %d requests cannot be", heads, started)
	case classes[0]+classes[1] < succeeded:
		return fmt.Errorf("%d succeeded with %d statuses of 2xx and 3xx cannot be", succeeded, classes[0]+classes[1])
	}
	r := t.r
	r.Statuses = map[string]uint64{}
	r.classify(succeeded, map[string]uint64{"2xx": classes[0], "3xx": classes[1]}, "below 400")
	r.classify(failed-errored, map[string]uint64{"4xx": classes[2], "5xx": classes[3]}, "400 or more")
	r.Requests = succeeded + failed - errored
	r.fail("timeout", min(timeouts, errored))
	r.fail("error", errored-min(timeouts, errored))
	r.holdRate(r.Requests, t.perS)
	return nil
}

// classify divides complete responses by their status: of some more the status was read and the end was
// not; of a few, begun in the warm-up or of no class that h2load prints, it was not counted.
func (r *Result) classify(complete uint64, counts map[string]uint64, others string) {
	for _, class := range slices.Backward(slices.Sorted(maps.Keys(counts))) {
		if n := min(counts[class], complete); n > 0 {
			r.Statuses[class] = n
			complete -= n
		}
	}
	if complete > 0 {
		r.Statuses[others] = complete
	}
}

// finishAutocannon determines the number of responses. autocannon prints it only if some had a bad
// status; otherwise the mean of the one-second samples has more digits than the rounded count, and is
// used if the two agree. The lines above the tables go to a terminal only.
func finishAutocannon(t *text) error {
	r := t.r
	sampled, err := strconv.ParseFloat(strings.ReplaceAll(t.others["sampled"], ",", ""), 64)
	if err != nil || r.MeanNs == nil {
		return errors.New("want the tables Latency and Req/Sec: it is cut off")
	}
	rounded, step, err := size(t.others["about"], "1000")
	if err != nil {
		return err
	}
	n, err := t.counts("good", "errors", "timeouts", "resets")
	if err != nil {
		return err
	}
	good, failed, timeouts, resets := n[0], n[1], n[2], n[3]
	if timeouts > failed {
		return fmt.Errorf("%d timeouts of %d errors cannot be", timeouts, failed)
	}
	if t.others["good"] == "" {
		good = rounded
		if count := sampled * math.Round(r.DurationS); step > 1 && math.Abs(count-float64(rounded)) <= step {
			good = uint64(math.Round(count))
		} else if step > 1 {
			r.caveat("its count is rounded to %.0f requests", step)
		}
		r.Statuses = map[string]uint64{"2xx": good}
	} else {
		r.Statuses = map[string]uint64{"2xx": good, "not 2xx": t.bad}
	}
	r.Requests = good + t.bad
	r.fail("timeout", timeouts)
	r.fail("error", failed-timeouts)
	r.fail("reset", resets)
	if r.Connections > 0 {
		r.Pipelining, r.Workers = max(r.Pipelining, 1), max(r.Workers, 1)
	} else {
		r.caveat("the lines that repeat the URL, the connections and the workers are not in it")
	}
	r.MeanDigitNs = 1e6
	for i := range r.Quantiles {
		r.Quantiles[i].ResolutionNs = 1e6
	}
	return nil
}
