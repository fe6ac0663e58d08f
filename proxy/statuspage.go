package proxy

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"ceiling/internal/unit"
)

// The page of the admin address is /status for a person: it fits a phone, needs no script, and loads
// itself again.

const statusHead = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="5"><title>%[1]s</title><style>
body{font:16px/1.4 system-ui,sans-serif;margin:1em auto;max-width:60em;padding:0 .8em;color:#222;background:#fff}
h1{font-size:1.3em}h2{font-size:1.1em;margin:1.4em 0 .3em}table{border-collapse:collapse;width:100%%}
th,td{text-align:right;padding:.25em .5em;border-bottom:1px solid #8884;font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}div{overflow-x:auto}.bad{color:#b00020;font-weight:600}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#111}.bad{color:#ff7b72}}</style>
<h1>%[1]s</h1>
`

// WritePage writes the snapshot as a page.
func (s *Snapshot) WritePage(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, statusHead, s.summary())
	b.WriteString("<div><table><tr><th>since the start</th><th></th></tr>\n")
	count := func(n uint64) string { return unit.FormatCount(int64(n)) }
	row := func(name, value string, bad bool) {
		fmt.Fprintf(&b, "<tr><td>%s</td><td%s>%s</td></tr>\n", name, marked(bad), value)
	}
	row("requests", count(s.Counters["requests_total"]), false)
	for _, class := range []string{"2xx", "3xx", "4xx", "5xx"} {
		n := s.Statuses[class]
		row("answered "+class, count(n), class == "5xx" && n > 0)
	}
	row("clients connected now", count(uint64(s.Clients)), false)
	row("median latency, at most", s.within(.5), false)
	row("p99 latency, at most", s.within(.99), false)
	if len(s.Upstreams) > 0 {
		b.WriteString("</table></div>\n<h2>Destinations</h2><div><table><tr><th>address</th><th>state</th><th>busy</th><th>queued</th><th>open</th><th>ejected</th></tr>\n")
	}
	for _, u := range s.Upstreams {
		fmt.Fprintf(&b, "<tr><td>%s%s</td><td%s>%s</td><td>%d</td><td>%d</td><td>%d</td><td>%d</td></tr>\n", escape(u.Address), small(u.Problem),
			marked(u.State != "ok"), u.State, u.Busy, u.Queued, u.Open, u.Ejections)
	}
	if len(s.Sites) > 0 {
		b.WriteString("</table></div>\n<h2>Directories</h2><div><table>\n")
	}
	for _, d := range s.Sites {
		fmt.Fprintf(&b, "<tr><td>%s%s</td><td%s>%s</td></tr>\n", escape(d.Directory), small(d.Problem), marked(d.State != "ok"), d.State)
	}
	b.WriteString("</table></div>\n<p><small>/metrics and /status have all of it.</small></p></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func marked(bad bool) string {
	if bad {
		return ` class="bad"`
	}
	return ""
}

func small(problem string) string {
	if problem == "" {
		return ""
	}
	return "<br><small>" + escape(problem) + "</small>"
}

// summary says how many destinations, served directories among them, are unhealthy.
func (s *Snapshot) summary() string {
	bad := 0
	for _, u := range s.Upstreams {
		if u.State != "ok" {
			bad++
		}
	}
	for _, d := range s.Sites {
		if d.State != "ok" {
			bad++
		}
	}
	switch bad {
	case 0:
		return "ceiling-proxy: everything is healthy"
	case 1:
		return "ceiling-proxy: one destination is unhealthy"
	}
	return fmt.Sprintf("ceiling-proxy: %d destinations are unhealthy", bad)
}

// within returns the bound of the histogram below which a share of the requests lies.
func (s *Snapshot) within(share float64) string {
	last := len(s.Latency) - 1
	if last < 0 || s.Latency[last] == 0 {
		return "–"
	}
	bounds := LatencyBounds()
	i := slices.IndexFunc(s.Latency[:last], func(n uint64) bool { return float64(n) >= share*float64(s.Latency[last]) })
	if i < 0 {
		return fmt.Sprintf("over %g s", bounds[len(bounds)-1])
	}
	return fmt.Sprintf("%g ms", bounds[i]*1e3)
}
