package page

import (
	"html/template"
	"strings"
	"sync"

	"ceiling/internal/lazy"
	"ceiling/record"
	"ceiling/report/chart"
)

// What a page needs that has reports in it and is more than a report: the
// journal's.

// parts executes pieces of a page.
var parts = sync.OnceValue(func() *template.Template {
	return template.Must(template.Must(pages().Clone()).Parse(`{{define "sections"}}{{range .Sections}}<section id="{{.ID}}" aria-labelledby="{{.ID}}-title">
<h2 id="{{.ID}}-title">{{.Title}}</h2>
{{range .Blocks}}{{template "block" .}}
{{end}}</section>
{{end}}{{end}}
{{define "blocks"}}{{range .Sections}}{{range .Blocks}}{{template "block" .}}{{end}}{{end}}{{end}}`))
}) // read-only

// Sections is the sections of a document as HTML.
func Sections(d Document) (template.HTML, error) { return executePart("sections", d) }

// Blocks is blocks as HTML.
func Blocks(list ...Block) (template.HTML, error) {
	return executePart("blocks", Document{Sections: []Section{{Blocks: list}}})
}

func executePart(name string, d Document) (template.HTML, error) {
	var b strings.Builder
	if err := parts().ExecuteTemplate(&b, name, clean(d)); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil // what html/template has made is escaped
}

// Style is what all of it looks like, Script what lets figures be zoomed.
func Style() (string, error) {
	style, err := files.ReadFile("page.css")
	return chart.Style() + string(style), err
}

// Script is for a page that has figures with Zoom.
func Script() (string, error) {
	script, err := files.ReadFile("page.js")
	return chart.Script() + string(script), err
}

// Shown is a text of a record as a page shows it: without passwords, and
// without characters that look like something else.
func Shown(text string) string { return legible(redact(text)) }

// Text is s with control characters and marks of direction replaced.
func Text(s string) string { return legible(s) }

var (
	secretFlag = lazy.Regexp(`(?is)(?:^-H|^|[^a-z-])(` + secretNames + `)\s*:`)
	secretArgs = lazy.Regexp(`(?i)^--?(?:password|token|secret|api-?key)(?:=|$)`)
)

// CredentialsOfRun names what of a run's record lets a client in, and should
// not be published with it.
func CredentialsOfRun(r *record.Run) []string {
	list := credentialsIn(r.Command, "the command line")
	for i := range r.Spec.Targets {
		t := &r.Spec.Targets[i]
		if password().MatchString(t.URL) {
			list = append(list, "a password in the URL of a target")
		}
		for _, f := range t.Header {
			if secretName().MatchString(f.Name) {
				list = append(list, "the header field "+f.Name)
			}
		}
	}
	return list
}

// CredentialsOfPlan is CredentialsOfRun of a plan.
func CredentialsOfPlan(p *record.Plan) []string {
	list := credentialsIn(p.Command, "the command line")
	for i := range p.Experiment.Servers {
		s := &p.Experiment.Servers[i]
		list = append(list, credentialsIn([]string{s.URL}, "a server's URL")...)
		for _, text := range append([]string{s.Serve}, s.Env...) {
			if secretVariable().MatchString(text) || password().MatchString(text) {
				list = append(list, "the command or the environment of the server "+redact(s.Label()))
			}
		}
	}
	for i := range p.Experiment.Requests {
		for _, r := range p.Experiment.Requests[i].All() {
			list = append(list, credentialsIn(r.Header, "a request's header")...)
		}
	}
	return list
}

func credentialsIn(words []string, where string) []string {
	for _, w := range words {
		if m := secretFlag().FindStringSubmatch(w); m != nil {
			return []string{"the header field " + m[1] + " in " + where}
		}
		if password().MatchString(w) || secretVariable().MatchString(w) || secretArgs().MatchString(w) {
			return []string{"a password or token in " + where}
		}
	}
	return nil
}
