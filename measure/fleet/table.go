package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"ceiling/internal/unit"
	"ceiling/measure/fleet/clock"
	"ceiling/record"
)

// Schema names the version of the Fleet document.
const Schema = "ceiling.fleet/1"

// Fleet lists the agents that are present.
type Fleet struct {
	Schema string `json:"schema"`
	Bed    string `json:"bed"`
	Agents []Here `json:"agents"`
}

// Here is one agent that answered.
type Here struct {
	present
	// Clock at this moment, as record.AgentClock has it.
	Clock record.AgentClock `json:"clock"`
}

// Look asks every agent for its description and clock.
func (w *Work) Look(ctx context.Context) (*Fleet, error) {
	all, err := w.discover(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Here, len(all))
	for i, p := range all {
		list[i].present = p
	}
	_ = each(list, func(h *Here) error {
		var c clock.Clock
		if err := w.pings(ctx, &h.present, &c); err != nil {
			w.o.Log(err.Error()) // it left after discovery
			return nil
		}
		now := w.now()
		h.Clock = clockOf(&c, now, now, now)
		return nil
	})
	return &Fleet{Schema: Schema, Bed: w.conn.Bed(), Agents: list}, nil
}

// Text writes the table: two lines per agent, its description and its limits, at most 100 columns.
func (f *Fleet) Text(out io.Writer) error {
	if len(f.Agents) == 0 {
		_, err := fmt.Fprintf(out, "no agents connected (test bed %s)\n", f.Bed)
		return err
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "agent\thost\tcores\tmemory\tNIC\tclock within\tcalibrated\tstate")
	for i := range f.Agents {
		fmt.Fprintln(t, strings.Join(f.Agents[i].cells(), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var errs error
	for i, line := range strings.Split(strings.TrimRight(b.String(), "\n"), "\n") {
		_, err := fmt.Fprintln(out, strings.TrimRight(line, " "))
		errs = errors.Join(errs, err)
		if i > 0 {
			_, err = fmt.Fprintln(out, "  "+short(f.Agents[i-1].offers(), 98))
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// cells returns the columns that describe it.
func (h *Here) cells() []string {
	nic, calibrated, within := "-", "-", "no answer"
	if h.NIC != "" {
		nic = short(h.NIC, 12)
	}
	if h.NICBitsPerSecond > 0 {
		nic += " " + strings.ReplaceAll(unit.FormatBits(unit.BitsPerSecond(h.NICBitsPerSecond)), " ", "")
	}
	if h.CapacityPerS > 0 {
		calibrated = unit.FormatSI(h.CapacityPerS) + "/s"
	}
	if h.Clock.Pings > 0 {
		within = unit.FormatNs(h.Clock.ErrorNs)
	}
	state := "free"
	if h.Phase != Idle {
		state = string(h.Phase) + ", since " + unit.FormatDuration(time.Duration(h.BusyNs).Round(time.Second))
	}
	return []string{
		short(h.Name, 16), short(h.Host, 12), fmt.Sprintf("%.3g", h.Cores), unit.FormatBytesIEC(int64(h.MemoryBytes)),
		nic, within, calibrated, state,
	}
}

// offers returns the limits of what it accepts.
func (h *Here) offers() string {
	var does []string
	if h.Observes {
		does = append(does, "observes")
	}
	if h.Serves != "" {
		does = append(does, "serves on "+h.Serves)
	}
	if !h.Loads {
		return strings.Join(does, ", ")
	}
	text := strings.Join(append(does, "loads "), ", ")
	bounds := []string{unit.FormatDuration(h.MaxTime)}
	if h.MaxRate > 0 {
		bounds = append(bounds, unit.FormatSI(h.MaxRate)+"/s")
	}
	if h.MaxConnections > 0 {
		bounds = append(bounds, unit.FormatCount(int64(h.MaxConnections))+" connections")
	}
	return text + "for " + strings.Join(bounds, " and ") + " at most: " + strings.Join(h.Allow, ", ")
}

// short truncates a text to so many characters.
func short(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
