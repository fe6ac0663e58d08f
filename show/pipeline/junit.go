package pipeline

import (
	"encoding/xml"
	"io"

	"ceiling/experiment/plan"
)

// The elements of JUnit's XML that its readers agree on (Jenkins, GitLab, GitHub's reporters).
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     float64     `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    float64       `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
	}
)

// JUnit writes each condition as a test: one that is inconclusive counts as skipped, for it has not
// failed and must not read as passed.
func JUnit(w io.Writer, o *Outcome) error {
	var all junitSuites
	for i := range o.Loads {
		c := &o.Loads[i]
		s := junitSuite{Name: "ceiling " + c.Name, Tests: len(c.Checks)}
		if c.Plan != nil {
			s.Time = c.Plan.TookS
		}
		for k := range c.Checks {
			check := &c.Checks[k]
			test := junitCase{Class: s.Name, Name: check.Condition, Time: s.Time / float64(len(c.Checks))}
			switch message := (&junitMessage{says(check)}); check.Result {
			case plan.GateFailed:
				test.Failure = message
				s.Failures++
			case plan.GateInconclusive:
				test.Skipped = message
				s.Skipped++
			}
			s.Cases = append(s.Cases, test)
		}
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
