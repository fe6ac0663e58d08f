package main

import (
	"testing"
	"time"

	"ceiling/internal/faultserver"
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
			s, err := faultserver.Listen("tcp", "127.0.0.1:0", faultserver.Every(faultserver.Answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")))
			if err != nil {
				t.Fatal(err)
			}
			const connections = 8
			o, err := f.run(t.Context(), job{URL: "http://" + s.Address() + "/simple", Connections: connections, Pipelining: pipelining,
				Duration: time.Second})
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			seen := s.Requests()
			// One more taught it the length.
			if least, most := o.Completed, o.Completed+uint64(connections*pipelining)+1; seen < least || seen > most {
				t.Errorf("%s with %d each: the server saw %d requests, it counts %d", f.Name, pipelining, seen, o.Completed)
			}
			if o.CPUNs <= 0 || o.ElapsedS < 1 {
				t.Errorf("%s: %+v", f.Name, o)
			}
			s.Close()
		}
	}
}

// A job that the floor cannot do is refused before it starts.
func TestFloorArguments(t *testing.T) {
	for _, j := range []job{{URL: "https://127.0.0.1:1/"}, {URL: "http://127.0.0.1:1/", HTTP2: true}} {
		if args, able := floorTools("")[0].arguments(j, ""); able {
			t.Errorf("%+v: %q", j, args)
		}
	}
}
