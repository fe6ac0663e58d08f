package main

import (
	"testing"
	"time"

	"ceiling/internal/needs"
)

// The floor counts what the server counts, but for what is in flight at the end.
func TestFloor(t *testing.T) {
	needs.Program(t, "cc")
	path, err := compileFloor(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, pipelining := range []int{1, 16} {
		for _, f := range floorTools(path) {
			c, err := newCounter()
			if err != nil {
				t.Fatal(err)
			}
			const connections = 8
			o, err := f.run(t.Context(), job{URL: c.url(), Connections: connections, Pipelining: pipelining, Duration: time.Second}, nil)
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			var seen int64
			for i := range c.bins {
				seen += c.bins[i].Load()
			}
			// One more taught it the length.
			if least, most := int64(o.Completed), int64(o.Completed)+int64(connections*pipelining)+1; seen < least || seen > most {
				t.Errorf("%s with %d each: the server saw %d requests, it counts %d", f.Name, pipelining, seen, o.Completed)
			}
			if o.CPUNs <= 0 || o.ElapsedS < 1 {
				t.Errorf("%s: %+v", f.Name, o)
			}
			if err := c.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A job that the floor cannot do is refused before it starts.
func TestFloorArguments(t *testing.T) {
	for _, j := range []job{{URL: "https://127.0.0.1:1/"}, {URL: "http://127.0.0.1:1/", PerS: 10}, {URL: "http://127.0.0.1:1/", HTTP2: true}} {
		if args, able := floorArguments(1)(j, ""); able {
			t.Errorf("%+v: %q", j, args)
		}
	}
}
