package main

import (
	"strings"
	"testing"

	"ceiling/record"
)

func TestApartIsTheLargestDifference(t *testing.T) {
	p := PlaceShares{
		Sockets: []record.Station{{Name: "a", Share: 0.5}, {Name: "b", Share: 0.3}, {Name: "c", Share: 0.2}},
		Events:  []record.Station{{Name: "a", Share: 0.52}, {Name: "b", Share: 0.22}, {Name: "c", Share: 0.26}},
	}
	if got := p.apart(); got < 0.0799 || got > 0.0801 {
		t.Errorf("%g, want 0.08", got)
	}
}

// TestReadNeedsBoth: a record in which one method says nothing is no comparison.
func TestReadNeedsBoth(t *testing.T) {
	var p PlaceShares
	err := p.read(&record.Run{}, &record.Series{})
	if err == nil || !strings.Contains(err.Error(), "kernel") {
		t.Errorf("%v", err)
	}
}

func TestPlacesTable(t *testing.T) {
	e := Entry{
		Commit: "0123456789abcdef",
		Places: []PlaceShares{{
			Server: "nethttp", Route: "/read", Connections: 64, Named: "server CPU", Samples: 400, Bursts: 12,
			Sockets: []record.Station{{Name: "server receive queue", Share: 0.96}},
			Events:  []record.Station{{Name: "server receive queue", Share: 0.94}},
		}},
		Observed: []Observed{{"nethttp", "/simple", Spread{0.99, 0.97, 1.01, 7}}},
	}
	text := block(&e, printPlaces)
	for _, want := range []string{"commit 0123456789ab", "96 / 94", "2.0", "0.990 [0.970–1.010]", "server CPU"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
