package selftest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"ceiling/verdict/prose"
)

// Count counts the results of each kind.
func Count(results []Result) map[string]int {
	n := map[string]int{}
	for _, r := range results {
		n[r.Judged]++
	}
	return n
}

// WriteRow writes one result: the plant, the verdict, and its reason.
func WriteRow(w io.Writer, r Result) error {
	_, err := fmt.Fprintf(w, "%-22s %-9s planted %-14s named %-14s %s\n", r.Scenario, r.Judged, append(r.Accepted, "-")[0], cmp.Or(r.Named, "-"),
		r.Parameters)
	if err != nil {
		return err
	}
	for _, line := range r.grounds() {
		if _, err := fmt.Fprintf(w, "%-22s   %s\n", "", line); err != nil {
			return err
		}
	}
	return nil
}

// grounds returns the verdict's reason; if it is wrong, all of its evidence.
func (r *Result) grounds() []string {
	var lines []string
	if r.Why != "" {
		lines = append(lines, r.Why)
	}
	if r.Blamed {
		lines = append(lines, "a server was named where the generator is the bottleneck")
	}
	v := r.Verdict
	if v == nil {
		return lines
	}
	lines = append(lines, prose.Sentence(v.Because))
	if r.Confirmed != nil {
		lines = append(lines, "confirmed by another client, "+r.Confirmed.says())
	}
	if r.Judged != Wrong {
		return lines
	}
	lines = append(lines, "right would be: "+strings.Join(r.Accepted, ", "))
	for _, e := range v.Evidence {
		lines = append(lines, "evidence: "+prose.Text(e.Says))
	}
	for _, d := range v.Caveats {
		lines = append(lines, "caveat: "+prose.Text(d))
	}
	for _, s := range v.Stations {
		lines = append(lines, fmt.Sprintf("station: %s %.0f%%", s.Name, s.Share*100))
	}
	if r.Record != "" {
		lines = append(lines, "record: "+r.Record)
	}
	return lines
}

// WriteSummary writes the last line.
func WriteSummary(w io.Writer, results []Result) error {
	n, blamed := Count(results), 0
	for _, r := range results {
		if r.Blamed {
			blamed++
		}
	}
	_, err := fmt.Fprintf(w, "%d of %d right, %d wrong (%d blamed a server for the generator), %d disturbed, %d unconfirmed, %d not run, %d failed\n",
		n[Right], len(results), n[Wrong], blamed, n[Disturbed], n[Unconfirmed], n[NotRun], n[Failed])
	if packages := missingPackages(results); err == nil && len(packages) > 0 {
		_, err = fmt.Fprintf(w, "for those that were not run: %s%s\n", install, strings.Join(packages, " "))
	}
	return err
}

// missingPackages lists the packages that skipped scenarios need.
func missingPackages(results []Result) []string {
	var packages []string
	for i := range results {
		if list, found := strings.CutPrefix(results[i].Why, notInstalled+install); found {
			packages = append(packages, strings.Fields(list)...)
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}
