package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"ceiling/proxy/config"
	"ceiling/proxy/files"
)

// errorPages are a region's own, by status ("404") and class ("5xx").
type errorPages map[string]errorPage

type errorPage struct{ text, kind string }

// errorPagesOf are those of a region; those of the file are for what it lacks.
func errorPagesOf(region, file map[string]config.ErrorPage) errorPages {
	all := errorPages{}
	for _, pages := range []map[string]config.ErrorPage{file, region} {
		for status, p := range pages {
			all[status] = errorPage{p.Text, files.TypeOf(p.File)}
		}
	}
	return all
}

// page returns an error page, and its type.
func (p errorPages) page(status int, why string) (text []byte, kind string) {
	own, found := p[strconv.Itoa(status)]
	if !found {
		own, found = p[strconv.Itoa(status/100)+"xx"]
	}
	if !found {
		return page(status, why), "text/html; charset=utf-8"
	}
	switch {
	case strings.HasPrefix(own.kind, "text/html"):
		why = escape(why)
	case strings.HasSuffix(own.kind, "json"):
		why = strconv.QuoteToASCII(why) // the causes are texts of ours, and plain
		why = why[1 : len(why)-1]
	}
	return []byte(strings.NewReplacer("{status}", strconv.Itoa(status), "{reason}", http.StatusText(status), "{detail}", why).
		Replace(own.text)), own.kind
}

// page returns the proxy's error page.
func page(status int, why string) []byte {
	return fmt.Appendf(nil, `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">`+
		`<title>%[1]d %[2]s</title><style>body{font:16px/1.5 system-ui,sans-serif;margin:15vh auto;max-width:32em;padding:0 1em;`+
		`color:#222;background:#fff}h1{font-size:1.5em}@media(prefers-color-scheme:dark){body{color:#ddd;background:#111}}</style>`+
		`<h1>%[1]d %[2]s</h1><p>%[3]s.</p></html>`+"\n", status, http.StatusText(status), escape(why))
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
