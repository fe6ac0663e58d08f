package proxy

import (
	"cmp"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"ceiling/proxy/access"
	"ceiling/proxy/config"
)

// edits are changes to a head's lines.
type edits struct {
	without []string // names, as variableOf returns them
	lines   []byte   // to add
}

// named reports whether name is one of names, or becomes one as a variable of CGI; names are as
// variableOf returns them.
func named(name []byte, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return len(n) == len(name) && sameVariable(name, n) })
}

// variableOf returns what the names have in common that CGI and its successors, PHP among them, make
// one variable of: they fold letters, and read all punctuation in one way.
func variableOf(name string) string {
	b := []byte(strings.ToLower(name))
	for i, c := range b {
		if !alphanumeric(c) {
			b[i] = '-'
		}
	}
	return string(b)
}

func sameVariable(name []byte, variable string) bool {
	for i, c := range name {
		d := variable[i]
		if c != d && (c|0x20 != d || d < 'a') && (d != '-' || alphanumeric(c)) {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool { return c-'0' < 10 || c|0x20-'a' < 26 }

func (e *edits) set(name, value string) {
	e.without = append(e.without, variableOf(name))
	e.lines = appendField(e.lines, name, value)
}

func appendField(b []byte, name, value string) []byte {
	return fmt.Appendf(b, "%s: %s\r\n", name, value)
}

// requestEditsOf returns the edits of requests; own are the fields that the proxy says itself.
func requestEditsOf(h *config.Headers, own []string) edits {
	var e edits
	for _, n := range own {
		e.without = append(e.without, variableOf(n))
	}
	for _, n := range h.Remove {
		e.without = append(e.without, variableOf(n))
	}
	for _, n := range slices.Sorted(maps.Keys(h.Set)) {
		e.set(n, h.Set[n])
	}
	for _, n := range slices.Sorted(maps.Keys(h.Add)) {
		e.lines = appendField(e.lines, n, h.Add[n])
	}
	return e
}

// headKind is where a response's head comes from.
type headKind uint8

const (
	contentHead  headKind = iota // a destination's or a file's
	redirectHead                 // our redirection
	pageHead                     // our error page
	headKinds
)

// keeps reports whether a head of our own keeps its field of that name, in lower case: the
// configured one is about other content. A page that was cached as long as what is missing would
// outlive the error.
func (k headKind) keeps(lower string) bool {
	switch lower {
	case "location":
		return k != contentHead
	case "content-type", "content-encoding", "content-language", "content-disposition", "content-range", "accept-ranges",
		"cache-control", "expires", "etag", "last-modified", "age", "allow", "retry-after":
		return k == pageHead
	}
	return false
}

// responseEdits are the edits of a destination's responses, by whether the client uses TLS and by
// kind.
type responseEdits [2][headKinds]edits

// edits reports whether the field, in lower case, is removed or set.
func (r *responseEdits) edits(name string) bool {
	return slices.Contains(r[1][contentHead].without, name)
}

// responseEditsOf joins the helmets of a location and of one of its destinations, which is more
// specific, and the location's own edits, the most specific. varies means that the content may
// depend on Accept-Encoding, as a configured Vary then says too.
func responseEditsOf(l *config.Location, own *config.Helmet, varies bool) (r responseEdits) {
	set, h := map[string]string{}, &l.ResponseHeaders
	for _, helmet := range []*config.Helmet{l.Helmet, own} {
		helmetFields(helmet, set)
	}
	for _, n := range h.Remove {
		delete(set, strings.ToLower(n))
	}
	hsts := set[hstsName] // ignored without TLS (RFC 6797, section 7.2)
	names := map[string]string{}
	for n, v := range h.Set {
		lower := strings.ToLower(n)
		if lower == hstsName {
			hsts = ""
		}
		if lower == "vary" && varies && v != "*" && !strings.Contains(strings.ToLower(v), "accept-encoding") {
			v += ", Accept-Encoding"
		}
		set[lower], names[lower] = v, n
	}
	for secure := range r {
		for k := range headKinds {
			e := &r[secure][k]
			if l.Access != nil && l.Access.CORS != nil {
				e.without = access.Fields()
			}
			for _, n := range h.Remove {
				if !k.keeps(strings.ToLower(n)) {
					e.without = append(e.without, variableOf(n))
				}
			}
			for _, n := range slices.Sorted(maps.Keys(set)) {
				if !k.keeps(n) && (secure == 1 || n != hstsName || hsts == "") {
					e.set(cmp.Or(names[n], canonical(n)), set[n])
				}
			}
			for _, n := range slices.Sorted(maps.Keys(h.Add)) {
				if !k.keeps(strings.ToLower(n)) {
					e.lines = appendField(e.lines, n, h.Add[n])
				}
			}
		}
	}
	return r
}

const hstsName = "strict-transport-security"

// canonical spells a helmet's name as its specification does.
func canonical(lower string) string {
	return strings.NewReplacer("Xss", "XSS", "Dns", "DNS").Replace(textproto.CanonicalMIMEHeaderKey(lower))
}

// helmetFields adds the security headers, by name in lower case.
func helmetFields(h *config.Helmet, set map[string]string) {
	if h == nil {
		return
	}
	policy := "content-security-policy"
	if h.CSPReportOnly {
		policy += "-report-only"
	}
	for name, value := range map[string]string{
		"x-xss-protection":                  h.XSSProtection,
		"x-content-type-options":            h.ContentTypeNosniff,
		"x-frame-options":                   h.XFrameOptions,
		"cross-origin-embedder-policy":      h.CrossOriginEmbedderPolicy,
		"cross-origin-opener-policy":        h.CrossOriginOpenerPolicy,
		"cross-origin-resource-policy":      h.CrossOriginResourcePolicy,
		"origin-agent-cluster":              h.OriginAgentCluster,
		"referrer-policy":                   h.ReferrerPolicy,
		"permissions-policy":                h.PermissionPolicy,
		"x-dns-prefetch-control":            h.XDNSPrefetchControl,
		"x-download-options":                h.XDownloadOptions,
		"x-permitted-cross-domain-policies": h.XPermittedCrossDomain,
		policy:                              h.ContentSecurityPolicy,
	} {
		if value != "" {
			set[name] = value
		}
	}
	if h.HSTSMaxAge <= 0 {
		return
	}
	value := fmt.Sprintf("max-age=%d", h.HSTSMaxAge)
	if !h.HSTSExcludeSubdomains {
		value += "; includeSubDomains"
	}
	if h.HSTSPreloadEnabled {
		value += "; preload"
	}
	set[hstsName] = value
}
