package borrowed

import (
	"fmt"
	"strings"
)

// address is the URL that curl asks for: without dots in its path, with the parts of -G and --url-query.
func (c *command) address(text string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		special := !c.on["globoff"] && strings.IndexByte("[]{}", text[i]) >= 0
		switch end := strings.Index(text[i:], "}}"); {
		case text[i] == '\\' && !c.on["globoff"] && i+1 < len(text) && strings.IndexByte("[]{}", text[i+1]) >= 0:
			i++
		case special && strings.HasPrefix(text[i:], "{{") && end > 0: // a place of --feed
			b.WriteString(text[i : i+end+1])
			i += end + 1
		case special && text[i] == '[' && (i == 0 || strings.HasSuffix(text[:i], "://")) && strings.Contains(text, "]"): // an IPv6 address
			end := strings.IndexByte(text[i:], ']')
			b.WriteString(text[i : i+end])
			i += end
		case special:
			return "", fmt.Errorf("curl makes several URLs of %.20q; give each its own line, or -g if it is meant as it is", text[i:])
		}
		b.WriteByte(text[i])
	}
	text = b.String()
	scheme, rest, found := strings.Cut(text, "://")
	if !found || strings.ContainsAny(scheme, "/?#:") {
		scheme, rest = "http", text
	}
	rest, _, _ = strings.Cut(rest, "#")
	place, query, asked := strings.Cut(rest, "?")
	host, path, _ := strings.Cut(place, "/")
	if path = "/" + path; !c.on["path-as-is"] {
		path = withoutDots(path)
	}
	if c.query != nil {
		if query != "" && !strings.HasSuffix(query, "&") {
			query += "&"
		}
		query += strings.Join(c.query, "")
		asked = query != ""
	}
	if asked {
		path += "?" + query
	}
	return scheme + "://" + host + path, nil
}

// withoutDots removes . and .. from a path (RFC 3986, section 5.2.4).
func withoutDots(path string) string {
	segments := strings.Split(path, "/")
	out := segments[:1]
	for i, one := range segments[1:] {
		last := i == len(segments)-2
		switch one {
		case "..":
			out = out[:max(1, len(out)-1)]
			fallthrough
		case ".":
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, one)
		}
	}
	return strings.Join(out, "/")
}
