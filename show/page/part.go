package page

import (
	"html/template"
	"slices"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/record"
	"ceiling/show/chart"
)

// For pages that embed reports: the journal's.

// Sections renders the sections of a document as HTML.
func Sections(d Document) (template.HTML, error) { return executePart("sections", d) }

// Blocks renders blocks as HTML.
func Blocks(list ...Block) (template.HTML, error) {
	return executePart("blocks", Document{Sections: []Section{{Blocks: list}}})
}

func executePart(name string, d Document) (template.HTML, error) {
	var b strings.Builder
	if err := pages().ExecuteTemplate(&b, name, clean(d)); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil // html/template has escaped it
}

// Style returns the CSS.
func Style() string { return chart.Style() + pageStyle }

// Script returns the JavaScript for pages with figures that have Zoom.
func Script() string { return chart.Script() + pageScript }

// Shown prepares a text of a record for display: without secrets, and without characters that
// disguise text.
func Shown(text string) string { return Text(secret.Plain().Text(text)) }

// CredentialsOfRun lists the unredacted secrets in a run's record, which should not be published.
func CredentialsOfRun(r *record.Run) []string {
	list := credentialsIn(r.Command, "the command line")
	for i := range r.Spec.Targets {
		t := &r.Spec.Targets[i]
		if secret.InURL(t.URL) {
			list = append(list, "a password or token in the URL of a target")
		}
		for _, f := range t.Header {
			if secret.InField(f.Name, f.Value) {
				list = append(list, "the header field "+f.Name)
			}
		}
		if len(t.Body) > 0 {
			list = append(list, "the body of a request")
		}
	}
	if slices.ContainsFunc(strings.Split(r.Spec.Pprof, ","), secret.InURL) {
		list = append(list, "a password or token in the URL of the pprof endpoint")
	}
	return list
}

// CredentialsOfPlan is CredentialsOfRun for a plan.
func CredentialsOfPlan(p *record.Plan) []string {
	list := credentialsIn(p.Command, "the command line")
	for i := range p.Experiment.Servers {
		s := &p.Experiment.Servers[i]
		if secret.InURL(s.URL) {
			list = append(list, "a password or token in a server's URL")
		}
		if secret.InShell(s.Serve) || slices.ContainsFunc(s.Env, secret.InVariable) {
			list = append(list, "the command or the environment of the server "+redact(s.Label()))
		}
	}
	for i := range p.Experiment.Requests {
		for _, r := range p.Experiment.Requests[i].All() {
			list = append(list, credentialsOfRequest(&r)...)
		}
	}
	if _, more := p.Experiment.Concealed(secret.Plain()); more && len(list) == 0 {
		list = append(list, "a password or token in a name, or in the URL of the pprof endpoint")
	}
	return list
}

func credentialsOfRequest(r *spec.MixRequest) (list []string) {
	if secret.InURL(r.Path) {
		list = append(list, "a token in a request's path")
	}
	for _, line := range r.Header {
		name, value, _ := strings.Cut(line, ":")
		if secret.InField(name, strings.TrimSpace(value)) {
			list = append(list, "the header field "+name+" of a request")
		}
	}
	if r.BodyHidden == nil && (r.Body != "" || len(r.Content) > 0) {
		list = append(list, "the body of a request")
	}
	return list
}

func credentialsIn(words []string, where string) []string {
	var list []string
	for _, shown := range secret.InCommand(words) {
		name, _, field := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(shown, "-H"), "--header="), ":")
		if field && secret.InName(name) && !strings.ContainsAny(name, " /?") {
			list = append(list, "the header field "+name+" in "+where)
			continue
		}
		list = append(list, "a password or token in "+where)
	}
	return slices.Compact(list)
}

// CommandLine prepares a command of a record for display.
func CommandLine(words []string) string { return Text(commandLine(words)) }

// Servers returns the servers of a plan's experiment, redacted for display.
func Servers(p *record.Plan) []spec.Server {
	e, _ := p.Experiment.Concealed(secret.Plain())
	return e.Servers
}
