package fleet

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"ceiling/internal/unit"
	"ceiling/measure/fleet/clock"
)

// Schema names the version of the Fleet document.
const Schema = "ceiling.fleet/1"

// Fleet lists the agents that are present.
type Fleet struct {
	Schema string    `json:"schema"`
	Bed    string    `json:"bed"`
	Agents []present `json:"agents"`
}

// Look asks every agent for its description and clock.
func (w *Work) Look(ctx context.Context) (*Fleet, error) {
	all, err := w.discover(ctx)
	if err != nil {
		return nil, err
	}
	_ = each(all, func(p *present) error {
		var c clock.Clock
		if err := w.pings(ctx, p, &c); err != nil {
			w.o.Log(err.Error()) // it left after discovery
			return nil
		}
		now := w.now()
		p.Clock = clockOf(&c, now, now, now)
		return nil
	})
	return &Fleet{Schema: Schema, Bed: w.conn.Bed(), Agents: all}, nil
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
		fmt.Fprintln(t, strings.Join(cells(&f.Agents[i]), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var text strings.Builder
	for i, line := range strings.Split(strings.TrimRight(b.String(), "\n"), "\n") {
		fmt.Fprintln(&text, strings.TrimRight(line, " "))
		if i > 0 {
			fmt.Fprintln(&text, "  "+short(offers(&f.Agents[i-1]), 98))
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// cells returns the columns that describe it.
func cells(p *present) []string {
	nic, calibrated, within := "-", "-", "no answer"
	if p.NIC != "" {
		nic = short(p.NIC, 12)
	}
	if p.NICBitsPerSecond > 0 {
		nic += " " + strings.ReplaceAll(unit.FormatBits(unit.BitsPerSecond(p.NICBitsPerSecond)), " ", "")
	}
	if p.CapacityPerS > 0 {
		calibrated = unit.FormatSI(p.CapacityPerS) + "/s"
	}
	if p.Clock.Pings > 0 {
		within = unit.FormatNs(p.Clock.ErrorNs)
	}
	state := "free"
	if p.Phase != Idle {
		state = string(p.Phase) + ", since " + unit.FormatDuration(time.Duration(p.BusyNs).Round(time.Second))
	}
	return []string{
		short(p.Name, 16), short(p.Host, 12), fmt.Sprintf("%.3g", p.Cores), unit.FormatBytesIEC(int64(p.MemoryBytes)),
		nic, within, calibrated, state,
	}
}

// offers returns the limits of what it accepts.
func offers(p *present) string {
	var does []string
	if p.Observes {
		does = append(does, "observes")
	}
	if p.Serves != "" {
		does = append(does, "serves on "+p.Serves)
	}
	if !p.Loads {
		return strings.Join(does, ", ")
	}
	text := strings.Join(append(does, "loads "), ", ")
	bounds := []string{unit.FormatDuration(p.MaxTime)}
	if p.MaxRate > 0 {
		bounds = append(bounds, unit.FormatSI(p.MaxRate)+"/s")
	}
	if p.MaxConnections > 0 {
		bounds = append(bounds, unit.FormatCount(int64(p.MaxConnections))+" connections")
	}
	return text + "for " + strings.Join(bounds, " and ") + " at most: " + strings.Join(p.Allow, ", ")
}

// short truncates a text to so many characters.
func short(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}
