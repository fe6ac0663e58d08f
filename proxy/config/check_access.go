package config

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// maxBcryptCost bounds what one password takes: cost 14 is a second, each further one twice that.
const maxBcryptCost = 14

// access checks who may come in, and adds the users of a file to Users.
func (k *checker) access(a *Access, at *places, key string) {
	for name, list := range map[string][]string{"allow": a.Allow, "deny": a.Deny} {
		for i, n := range list {
			if _, err := AccessNetwork(n); err != nil {
				k.add(at, fmt.Sprintf("%s.%s.%d", key, name, i), "%s: %v", name, err)
			}
		}
	}
	if a.BasicAuth != nil {
		k.basicAuth(a.BasicAuth, at, key+".basic_auth")
	}
	if f := a.ForwardAuth; f != nil {
		if u, err := url.Parse(f.URI); err != nil || u.Scheme != HTTP && u.Scheme != HTTPS || u.Host == "" {
			k.add(at, key+".forward_auth.uri", "forward_auth: uri %q; http://host:port/path is needed", f.URI)
		}
		for i, text := range f.CopyHeaders {
			from, to, renamed := strings.Cut(text, ">")
			if !token(from) || renamed && !token(to) {
				k.add(at, fmt.Sprintf("%s.forward_auth.copy_headers.%d", key, i), "copy_headers: invalid name %q", text)
			}
		}
		if f.Timeout < 0 {
			k.add(at, key+".forward_auth.timeout", "forward_auth: a timeout is needed")
		}
	}
	if a.CORS != nil {
		k.cors(a.CORS, at, key+".cors")
	}
}

// AccessNetwork is ParseNetwork, and "all" means every address, as in nginx.
func AccessNetwork(s string) ([]netip.Prefix, error) {
	if s == "all" {
		return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}, nil
	}
	return ParseNetwork(s)
}

func (k *checker) basicAuth(b *BasicAuth, at *places, key string) {
	if b.Realm == "" {
		b.Realm = "restricted"
	}
	if !fieldText(b.Realm) || strings.ContainsAny(b.Realm, `"\`) {
		k.add(at, key+".realm", "basic_auth: realm %q has a character that its header cannot have", b.Realm)
	}
	users := map[string]string{}
	if b.File != "" {
		b.File = relativeTo(at.file, b.File)
		text, err := os.ReadFile(b.File)
		if err != nil {
			k.add(at, key+".file", "basic_auth: %v", err)
		}
		for i, line := range strings.Split(string(bytes.TrimPrefix(text, byteOrderMark)), "\n") {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			name, hash, _ := strings.Cut(line, ":")
			hash, _, _ = strings.Cut(hash, ":")
			if err := checkUser(name, hash); err != nil {
				k.wrong = append(k.wrong, &Error{b.File, i + 1, err.Error()})
			}
			users[name] = hash
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Users)) {
		if err := checkUser(name, b.Users[name]); err != nil {
			k.add(at, key+".users."+name, "basic_auth: %v", err)
		}
		users[name] = b.Users[name]
	}
	if b.Users = users; len(users) == 0 {
		k.add(at, key, "basic_auth: it has no users; add users = { name = \"$2y$…\" } or a file of htpasswd -B")
	}
}

// checkUser checks a name and a hash. The messages show no hash.
func checkUser(name, hash string) error {
	cost, err := bcrypt.Cost([]byte(hash))
	switch {
	case name == "" || strings.Contains(name, ":"):
		return fmt.Errorf("user %q: a name has no colon, and is not empty", name)
	case err != nil:
		return fmt.Errorf("user %q: the password is not a bcrypt hash ($2y$…); htpasswd -nB %[1]s prints one", name)
	case cost > maxBcryptCost:
		return fmt.Errorf("user %q: bcrypt cost %d takes seconds for each password; use %d at most", name, cost, maxBcryptCost)
	}
	return nil
}

func (k *checker) cors(c *CORS, at *places, key string) {
	if len(c.Origins) == 0 {
		k.add(at, key, "cors: origins are needed, as in https://app.example")
	}
	for i, o := range c.Origins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Path+u.RawQuery+u.Fragment != "" || u.User != nil) {
			k.add(at, fmt.Sprintf("%s.origins.%d", key, i), "cors: origin %q; a scheme and a host are needed, as in https://app.example, or *", o)
		}
	}
	if c.Credentials && slices.Contains(c.Origins, "*") {
		k.add(at, key+".credentials", "cors: browsers send no credentials where every origin is allowed; list the origins")
	}
	k.tokens(c.Methods, at, key+".methods", "methods")
	k.tokens(c.Headers, at, key+".headers", "headers")
	k.tokens(c.Expose, at, key+".expose", "expose")
}

// tokens checks a list of field names or methods.
func (k *checker) tokens(list []string, at *places, key, what string) {
	for i, n := range list {
		if !token(n) {
			k.add(at, fmt.Sprintf("%s.%d", key, i), "%s: invalid name %q", what, n)
		}
	}
}

// maxPage bounds the file of a fixed answer or an error page, which stays in memory.
const maxPage = 1 << 20

func (k *checker) respond(r *Respond, at *places, key string) {
	if r.Status == 0 {
		r.Status = 200
	}
	switch {
	case r.Status < 200 || r.Status > 599:
		k.add(at, key+".status", "respond: status %d; 200 to 599 are possible", r.Status)
	case (r.Status == 204 || r.Status == 304) && r.Body+r.File != "":
		k.add(at, key, "respond: a response with status %d has no body", r.Status)
	case r.Body != "" && r.File != "":
		k.add(at, key, "respond: body and file exclude each other")
	}
	if !fieldText(r.Type) {
		k.add(at, key+".type", "respond: the type has a control byte")
	}
	if r.File == "" {
		return
	}
	r.File = relativeTo(at.file, r.File)
	text, err := readPage(r.File)
	if err != nil {
		k.add(at, key+".file", "respond: %v", err)
	}
	r.Body = string(text)
}

func readPage(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxPage || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: a file of at most %d KiB is needed: it stays in memory", file, maxPage>>10)
	}
	return os.ReadFile(file)
}

// errorPages reads the pages: by status ("404") or class ("5xx").
func (k *checker) errorPages(pages map[string]ErrorPage, at *places, key string) {
	for status, p := range pages {
		n, err := strconv.Atoi(strings.Replace(status, "xx", "00", 1))
		if err != nil || n < 400 || n > 599 || len(status) != 3 || strings.HasSuffix(status, "xx") && !slices.Contains([]string{"4xx", "5xx"}, status) {
			k.add(at, key+"error_pages", "error_pages: %q; a status such as 404, or 4xx or 5xx is needed", status)
			continue
		}
		p.File = relativeTo(at.file, p.File)
		text, err := readPage(p.File)
		if err != nil {
			k.add(at, key+"error_pages."+status, "error_pages: %v", err)
		}
		p.Text = string(text)
		pages[status] = p
	}
}
