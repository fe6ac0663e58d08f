package calibrate

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"ceiling/internal/unit"
	"ceiling/record"
)

// Text writes a calibration as a table, with its caveats.
func Text(out io.Writer, c *record.Calibration) error {
	var b strings.Builder
	fmt.Fprintf(&b, "what one core of the generator can do: %s on CPU %s, against serve floor on CPU %s, %d connections\n",
		c.Engine, c.GeneratorCPUs, c.FloorCPUs, connections)
	fmt.Fprintf(&b, "%s · Linux %s · %s · median of %d × %gs, with the range\n\n", c.CPUModel, c.Kernel, c.Host, c.Repeats, c.DurationS)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "route\tbytes\tin flight\trequests/s a core\trange\tCPU/request\tbusy\tlimit\t")
	for i := range c.Points {
		p := &c.Points[i]
		rate, limit := unit.FormatCount(int64(p.CapacityPerS.Median)), "generator"
		if p.Derived {
			rate, limit = "≥ "+rate, "server"
			if p.Busy.Median+p.RunDelay.Median >= generatorFull {
				limit = "others on its CPU"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%d × %d\t%s\t%s–%s\t%s\t%.0f%%\t%s\t\n",
			p.Route, unit.FormatCount(int64(p.ResponseBytes+0.5)), p.Connections, p.Pipelining, rate,
			unit.FormatCount(int64(p.CapacityPerS.Low)), unit.FormatCount(int64(p.CapacityPerS.High)),
			unit.FormatNs(int64(p.CPUNsPerRequest.Median+0.5)), 100*p.Busy.Median, limit)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i, d := range c.Caveats {
		fmt.Fprintf(&b, "%s%-7s %s\n", []string{"\n", ""}[min(i, 1)], []string{"caveats", ""}[min(i, 1)], d)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
