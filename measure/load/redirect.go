package load

import (
	"bytes"
	"net/url"
	"slices"
)

// Redirect is the first response of one status that sends clients elsewhere.
type Redirect struct {
	Status int
	// To is its Location, without user, query and fragment, which may hold secrets; at most 200
	// bytes; "" if it has none.
	To string
}

// IsRedirect reports whether a status sends the client elsewhere (RFC 9110, section 15.4).
func IsRedirect(status int) bool {
	switch status {
	case 301, 302, 303, 307, 308:
		return true
	}
	return false
}

// redirected keeps where a redirect of HTTP/1.1 leads, if b holds its head.
func (in *inspector) redirected(status int, b []byte) {
	if in.lacksRedirect(status) && bytes.HasPrefix(b, []byte("HTTP/1.")) {
		head, _, whole := bytes.Cut(b, []byte("\r\n\r\n"))
		if whole {
			in.keepRedirect(status, locationIn(head))
		}
	}
}

// keepRedirect keeps the first redirect of each status, with its location as on the wire.
func (in *inspector) keepRedirect(status int, location []byte) {
	if in.lacksRedirect(status) {
		in.first.Redirects = append(in.first.Redirects, Redirect{status, place(location)})
	}
}

// lacksRedirect reports whether a status is a redirect of which none was kept.
func (in *inspector) lacksRedirect(status int) bool {
	return IsRedirect(status) && !slices.ContainsFunc(in.first.Redirects, func(r Redirect) bool { return r.Status == status })
}

// place returns the part of a location that may be shown.
func place(location []byte) string {
	u, err := url.Parse(string(bytes.TrimSpace(location)))
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	return u.String()[:min(len(u.String()), errorLineMax)]
}

// locationIn returns the Location of a head of HTTP/1.1.
func locationIn(head []byte) []byte {
	for line := range bytes.Lines(head) {
		if name, value, found := bytes.Cut(line, []byte(":")); found && bytes.EqualFold(name, []byte("location")) {
			return value
		}
	}
	return nil
}

// joinRedirects adds another part's: one for each status, ascending.
func joinRedirects(list, more []Redirect) []Redirect {
	for _, r := range more {
		if !slices.ContainsFunc(list, func(have Redirect) bool { return have.Status == r.Status }) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Redirect) int { return a.Status - b.Status })
	return list
}
