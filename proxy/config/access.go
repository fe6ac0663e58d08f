package config

// Access restricts who may use a location. Rejected requests get 403, or 401 where a password is
// missing or wrong. A redirect to https comes first; a CORS preflight needs no password.
type Access struct {
	// Allow lists the addresses and networks that are admitted; no others are. nginx: allow.
	Allow []string `toml:"allow"`
	// Deny lists addresses and networks that are rejected. Where both lists have an address, the longer
	// prefix decides, whatever the order. nginx: deny.
	Deny []string `toml:"deny"`
	// BasicAuth asks for a name and a password. nginx: auth_basic; Caddy: basic_auth.
	BasicAuth *BasicAuth `toml:"basic_auth"`
	// ForwardAuth asks another service about each request. nginx: auth_request; Caddy: forward_auth;
	// Traefik: ForwardAuth.
	ForwardAuth *ForwardAuth `toml:"forward_auth"`
	// CORS lets pages of other sites read the responses.
	CORS *CORS `toml:"cors"`
}

// BasicAuth has users with bcrypt hashes, as htpasswd -B and caddy hash-password print them.
type BasicAuth struct {
	// Realm is shown by some browsers; "restricted" by default.
	Realm string `toml:"realm"`
	// Users are names with their hashes.
	Users map[string]string `toml:"users"`
	// File has further users, name:hash a line. Reload reads it again.
	File string `toml:"file"`
}

// ForwardAuth is a service that answers 2xx to admit a request. Any other response, such as a redirect
// to a login page, goes to the client.
type ForwardAuth struct {
	// URI is asked by GET, with the request's fields, X-Forwarded-Method, -Proto, -Host, -Uri and
	// -For, X-Original-URL and X-Original-Method.
	URI string `toml:"uri"`
	// CopyHeaders are fields of a 2xx response that the request carries to its destination, as in
	// "Remote-User", or "Remote-User>X-User" for another name. A client cannot send them, by either name.
	CopyHeaders []string `toml:"copy_headers"`
	// Timeout of the question, after which the client gets 504: 5s.
	Timeout Duration `toml:"timeout"`
}

// CORS is what browsers ask about requests of other sites' pages (fetch.spec.whatwg.org).
type CORS struct {
	// Origins with pages that may read the responses, as in https://app.example, or "*".
	Origins []string `toml:"origins"`
	// Methods that a preflight allows: GET, HEAD, POST, PUT, PATCH and DELETE by default.
	Methods []string `toml:"methods"`
	// Headers that a preflight allows; by default those that it asks for.
	Headers []string `toml:"headers"`
	// Expose lists response fields that the page may read, besides the harmless ones.
	Expose []string `toml:"expose"`
	// Credentials lets the page send cookies and passwords; not with origin "*".
	Credentials bool `toml:"credentials"`
	// MaxAge is how long a browser may remember a preflight: 10m.
	MaxAge Duration `toml:"max_age"`
}

// Respond is a fixed answer. nginx: return; Caddy: respond.
type Respond struct {
	Status int    `toml:"status"` // 200 by default
	Body   string `toml:"body"`
	// File has the body instead. Reload reads it again.
	File string `toml:"file"`
	// Type is the Content-Type: by the file's name, or text/plain; charset=utf-8.
	Type string `toml:"type"`
}

// ErrorPage is what the clients of a region get instead of the proxy's own page.
type ErrorPage struct {
	File string
	Text string // Read fills it in
}

// UnmarshalText takes the file's name.
func (e *ErrorPage) UnmarshalText(text []byte) error {
	e.File = string(text)
	return nil
}
