package access

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CORS is what pages of other sites may do (fetch.spec.whatwg.org, section 3.3). Its lines end in
// CRLF.
type CORS struct {
	every   bool // origin is allowed
	origins []string
	fixed   []byte // of a preflight's answer
	headers bool   // fixed has the allowed fields
	each    []byte // of every allowed response
}

// Fields returns the names, in lower case, that this says instead of a destination.
func Fields() []string {
	return []string{"access-control-allow-origin", "access-control-allow-credentials", "access-control-allow-methods",
		"access-control-allow-headers", "access-control-expose-headers", "access-control-max-age"}
}

// NewCORS allows the origins, or every one if "*" is among them. No methods mean the usual ones, no
// headers those that a preflight asks for.
func NewCORS(origins, methods, headers, expose []string, credentials bool, maxAge time.Duration) *CORS {
	o := &CORS{every: slices.Contains(origins, "*"), headers: len(headers) > 0}
	for _, origin := range origins {
		o.origins = append(o.origins, strings.ToLower(origin))
	}
	if len(methods) == 0 {
		methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
	}
	o.fixed = appendField(o.fixed, "Access-Control-Allow-Methods", strings.Join(methods, ", "))
	if o.headers {
		o.fixed = appendField(o.fixed, "Access-Control-Allow-Headers", strings.Join(headers, ", "))
	}
	o.fixed = appendField(o.fixed, "Access-Control-Max-Age", strconv.Itoa(int(maxAge/time.Second)))
	if credentials {
		o.each = appendField(o.each, "Access-Control-Allow-Credentials", "true")
	}
	if len(expose) > 0 {
		o.each = appendField(o.each, "Access-Control-Expose-Headers", strings.Join(expose, ", "))
	}
	return o
}

// Allows reports whether pages of an origin may read responses.
func (o *CORS) Allows(origin []byte) bool {
	return o.every || slices.Contains(o.origins, strings.ToLower(string(origin)))
}

// Lines appends what the response to a page of origin says; without an origin, only what caches need.
func (o *CORS) Lines(b, origin []byte) []byte {
	switch {
	case len(origin) == 0 || !o.Allows(origin):
	case o.every:
		b = append(appendField(b, "Access-Control-Allow-Origin", "*"), o.each...)
	default:
		b = append(appendField(b, "Access-Control-Allow-Origin", string(origin)), o.each...)
	}
	if !o.every {
		b = appendField(b, "Vary", "Origin")
	}
	return b
}

// Preflight returns what the answer to a preflight says besides Lines. wanted are the fields that it
// asks for.
func (o *CORS) Preflight(wanted []byte) []byte {
	if o.headers || len(wanted) == 0 {
		return o.fixed
	}
	return appendField(slices.Clone(o.fixed), "Access-Control-Allow-Headers", string(wanted))
}

func appendField(b []byte, name, value string) []byte {
	return fmt.Appendf(b, "%s: %s\r\n", name, value)
}
