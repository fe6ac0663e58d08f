package secure

import (
	"net/http"
	"strings"

	"ceiling/internal/http1"
)

// fault says what a request of HTTP/2 has for which one of HTTP/1.1 is refused, ""
// for nothing. Go's server takes it, and its transport would repair it: an
// authority that is none becomes an empty Host, a target is encoded anew, of two
// lengths the first holds, one that is no number is 0.
func fault(q *http.Request) string {
	head := q.Method + " " + q.RequestURI + " HTTP/1.1\r\nHost: " + q.Host + "\r\n"
	for _, v := range q.Header["Content-Length"] {
		head += "Content-Length: " + v + "\r\n"
	}
	head += "\r\n"
	hosts := q.Header["Host"]
	switch _, n, err := http1.ParseRequest([]byte(head)); {
	case err != nil || n != len(head):
		return "the method, path, authority or length is malformed"
	case q.Host == "":
		return "a request names its host"
	case q.RequestURI[0] != '/' && q.RequestURI != "*": // RFC 9113, section 8.3.1
		return "a path begins with a slash"
	case len(hosts) > 1, len(hosts) == 1 && !strings.EqualFold(hosts[0], q.Host): // the same section
		return "the authority and Host differ"
	}
	return ""
}
