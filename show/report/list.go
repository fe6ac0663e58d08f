package report

import (
	"fmt"
	"io"
	"text/tabwriter"

	"ceiling/internal/unit"
	"ceiling/record"
)

// ended is what there is to say of a plan in a column.
func ended(e *record.Entry) string {
	if e.Unfinished {
		return e.Target + ": unfinished; " + e.Onward
	}
	return e.Target + ": " + e.Says
}

// List writes the runs of a store, one line each.
func List(w io.Writer, entries []record.Entry) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintln(w, "No runs yet. Make one: ceiling run http://127.0.0.1:8080/")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tRATE\tVERDICT\tBOTTLENECK\tTARGET")
	for _, e := range entries {
		switch {
		case e.Unreadable != "":
			fmt.Fprintf(t, "%s\t-\tunreadable\t-\t%s\n", e.ID, e.Unreadable)
		case e.Kind != "":
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", e.ID, e.Kind, unit.Plural(e.Runs, "run", "runs"), "-", ended(&e))
		case e.Unfinished:
			fmt.Fprintf(t, "%s\t-\tunfinished\t-\t%s\n", e.ID, e.Target)
		default:
			fmt.Fprintf(t, "%s\t%s req/s\t%s\t%s\t%s\n", e.ID, unit.FormatSI(e.CompletedPerS), e.Outcome, e.Bottleneck, e.Target)
		}
	}
	return t.Flush()
}
