package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/measure/load"
	"ceiling/measure/lua"
	"ceiling/measure/run"
	"ceiling/show/face"
)

// readScript reads the script of --lua, for the requests of a URL, and returns the targets: those of a
// script whose requests are always the same, or the URL, for a script that makes them during the run.
func (f *runFlags) readScript(url string, fields []spec.Field, sh *shell) ([]spec.Target, error) {
	switch {
	case f.load.method != "" || f.load.body != "":
		return nil, errors.New("--lua: the script makes the requests; remove -m and -b, or set wrk.method and wrk.body there")
	case spec.IsWebSocket(url):
		return nil, errors.New("--lua: a script writes requests of HTTP/1.1; give an http:// or https:// URL")
	}
	o := lua.Options{URL: url, Args: f.load.from.luaArgs, Out: sh.Stdout}
	for _, h := range fields {
		o.Header = append(o.Header, [2]string{h.Name, h.Value})
	}
	s, err := lua.Load(f.load.from.lua, o)
	if err != nil {
		return nil, fmt.Errorf("--lua: %w", err)
	}
	f.script = s
	if s.PerCall > 1 && !f.changed("pipelining") {
		f.load.pipelining = fmt.Sprint(s.PerCall)
	}
	if s.Requests == nil {
		return []spec.Target{{Method: "GET", URL: url, Header: fields, Weight: 1}}, nil
	}
	base, _, err := spec.SplitURL(url)
	if err != nil {
		return nil, err
	}
	var list []spec.Target
	for _, b := range s.Requests {
		t, err := target(b, base)
		if err != nil {
			return nil, fmt.Errorf("--lua: %s: %w", f.load.from.lua, err)
		}
		list = append(list, t)
	}
	return list, nil
}

// scripted adds a script that makes the requests during the run to the order.
func (o *order) scripted(f *runFlags) error {
	s := f.script
	if o.one != nil {
		o.script = s
	}
	if s.Requests != nil {
		return nil
	}
	switch {
	case o.one == nil:
		return errors.New("--lua: this script makes requests during the run, one load at a time; remove the list and --repeats")
	case f.fleet.agents != 0:
		return errors.New("--lua: agents execute no code that they are sent; remove --agents, or use a script with constant requests")
	case o.one.HTTP == spec.HTTP2:
		return errors.New("--lua: a script writes requests of HTTP/1.1; remove --http")
	}
	o.compose = func([]load.Request, int, uint64) (*load.Composing, error) { return s.Composing(), nil }
	o.one.HTTP = spec.HTTP11
	o.one.Targets[0].From = &spec.Origin{What: spec.OriginScript, Name: f.load.from.lua, SHA256: s.SHA256}
	return nil
}

// target is a request as the script wrote it, to the server of base. The length of its body is written
// again when it is sent.
func target(b []byte, base string) (spec.Target, error) {
	head, body, _ := bytes.Cut(b, []byte("\r\n\r\n"))
	lines := strings.Split(string(head), "\r\n")
	words := strings.Fields(lines[0])
	t := spec.Target{Method: words[0], URL: base + words[1], Body: body, Weight: 1}
	for _, line := range lines[1:] {
		f, err := spec.ParseField(line)
		if err != nil {
			return t, err
		}
		if !strings.EqualFold(f.Name, "Content-Length") && !(f.Name == "Host" && strings.HasSuffix(base, "://"+f.Value)) {
			t.Header = append(t.Header, f)
		}
	}
	return t, nil
}

// ended tells the script the result, if it has a function for that.
func (o *order) ended(done *run.Result) error {
	if o.script == nil || !o.script.Done {
		return nil
	}
	r, response := &done.Run, &done.Response
	m := &lua.Summary{DurationUs: math.Round(r.ElapsedS * 1e6), Requests: float64(r.Requests.Completed), Bytes: float64(r.Bytes.Read),
		LatencyMin: float64(response.Min()) / 1e3, LatencyMax: float64(response.Max()) / 1e3, LatencyMean: response.Mean() / 1e3,
		LatencyStdev: r.Latency.Response.StdevNs / 1e3}
	response.Each(func(lowNs, highNs int64, count uint64) {
		m.Latency = append(m.Latency, lua.Counted{Value: math.Round(float64(lowNs+highNs) / 2e3), Count: count})
	})
	f := (&face.Run{Done: r}).Failures()
	m.ErrConnect, m.ErrRead, m.ErrWrite = float64(f.Connect), float64(f.Read), float64(f.Write)
	m.ErrTime, m.ErrStatus = float64(f.Timeout), float64(f.Status)
	return o.script.Finish(m)
}
