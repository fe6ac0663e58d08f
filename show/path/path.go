// Package path shows where the time of a request goes: its path from the client over the network
// to the server and back, as labelled boxes. Reports, the live views and the journal show the
// same boxes; Lines lays them out for a terminal.
package path

import (
	"fmt"
	"slices"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// Box is a place on the path, as text.
type Box struct {
	// Name is short, because the neighbours give it context; Station is the record's name.
	Name, Station string
	// Part is its share of the whole, 0 to 1, with its interval.
	Part, Low, High float64
	// Known is set if Part is known.
	Known bool
	// Time is that of the mean request, with its interval, "" if no mean is known. Share is the
	// part as text, with its interval.
	Time, TimeRange, Share, ShareRange string
	// Use is the utilisation of the resource here, UseShort the same abbreviated; "" if unknown.
	Use, UseShort string
	// Limits marks the bottleneck.
	Limits bool
}

// Unknown is the time of a box whose share is not known yet.
const Unknown = "not yet known"

// shortName returns the name of a box.
func shortName(station string) string {
	if name, there := map[string]string{
		record.PlaceGenerator: "client", record.PlaceToServer: "network", record.PlaceAtServer: "server queue", record.PlaceInServer: "server",
		record.PlaceToClient: "network", record.PlaceAtClient: "client queue", record.PlaceBeyond: "network and server",
	}[station]; there {
		return name
	}
	return station
}

// LongName returns the name of a box for use without its neighbours.
func LongName(station string) string {
	switch station {
	case record.PlaceToServer:
		return "network to server"
	case record.PlaceToClient:
		return "network to client"
	}
	return shortName(station)
}

// Boxes returns the boxes of a path.
func Boxes(p record.Path) []Box {
	var list []Box
	for i := range p.Places {
		list = append(list, boxOf(&p.Places[i], p.MeanNs))
	}
	return list
}

func boxOf(at *record.Place, meanNs float64) Box {
	b := Box{Name: shortName(at.Name), Station: at.Name, Limits: at.Limits, Known: at.Known}
	b.Use, b.UseShort = useOf(at)
	if !at.Known {
		return b
	}
	b.Part, b.Low, b.High = clamp(at.Share), clamp(at.Low), clamp(at.High)
	b.Share, b.ShareRange = unit.Percent(at.Share), between(unit.Percent(at.Low), unit.Percent(at.High))
	if meanNs > 0 {
		b.Time = unit.FormatNsFloat(at.Share * meanNs)
		b.TimeRange = between(unit.FormatNsFloat(at.Low*meanNs), unit.FormatNsFloat(at.High*meanNs))
	}
	return b
}

func clamp(share float64) float64 { return min(max(share, 0), 1) }

// between formats a range; a unit shared by both ends appears once.
func between(low, high string) string {
	figure := func(s string) (digits, unit string) {
		digits = strings.TrimRight(s, "%µnms ")
		return digits, s[len(digits):]
	}
	from, of := figure(low)
	if _, same := figure(high); of == same {
		low = from
	}
	return low + "–" + high
}

// useOf describes the utilisation at a place: cores, link or threads, and for a queue its depth.
func useOf(at *record.Place) (long, short string) {
	var parts []string
	most := -1.0
	for i := range at.Uses {
		u := &at.Uses[i]
		parts = append(parts, useText(u))
		if share, ok := u.Share(); ok {
			most = max(most, share)
		}
	}
	if most >= 0 {
		short = unit.Percent(most)
	}
	if queue := at.Name == record.PlaceAtServer || at.Name == record.PlaceAtClient; queue && at.Known && at.Requests > 0 {
		n := unit.Digits(at.Requests, 2)
		if at.Requests >= 10 {
			n = unit.FormatSI(at.Requests)
		}
		return n + " requests", n + " req"
	}
	return strings.Join(parts, ", "), short
}

func useText(u *record.Use) string {
	share, known := u.Share()
	switch u.What {
	case record.UseOfThread:
		return "thread " + unit.Percent(share)
	case record.UseOfCores:
		text := fmt.Sprintf("%.2f cores", u.Used)
		if known {
			text = fmt.Sprintf("%.2f of %s %s", u.Used, unit.Digits(u.Of, 3), map[bool]string{true: "core", false: "cores"}[u.Of == 1])
		}
		return text
	}
	if known {
		return fmt.Sprintf("%s %s full", u.Name, unit.Percent(share))
	}
	return strings.TrimSpace(u.Name + " " + unit.FormatBits(unit.BitsPerSecond(u.Used)))
}

// Limiting reports whether the bottleneck is on the path.
func Limiting(boxes []Box) bool {
	return slices.ContainsFunc(boxes, func(b Box) bool { return b.Limits })
}
