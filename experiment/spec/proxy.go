package spec

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ProxyURL is the URL of an HTTP proxy: http://[USER:PASSWORD@]HOST:PORT, or "".
type ProxyURL string

// Proxy is a parsed ProxyURL.
type Proxy struct {
	// URL has its scheme and its password.
	URL *url.URL
	// Via is its host:port, as in Address.
	Via string
	// Authorization is the value of its Proxy-Authorization field (RFC 7617); "": none.
	Authorization string
}

// ParseProxy parses the URL of an HTTP proxy as curl's -x takes it: the scheme may be left out, and
// the port, which is 80 then.
func ParseProxy(from ProxyURL) (p Proxy, err error) {
	text := string(from)
	wrong := func(what string) (Proxy, error) {
		return p, fmt.Errorf("--proxy: %s; write http://HOST:PORT, as in http://127.0.0.1:3128", what)
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return wrong("this is not a URL") // which may have a password
	}
	p.URL = u
	if u.Scheme != "http" {
		return wrong("a proxy that speaks " + quoteShort(u.Scheme) + " is not supported")
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return wrong("a path has no meaning in a proxy's URL")
	}
	to, _, _, err := ParseTarget("http://" + u.Host)
	if err != nil {
		return wrong(err.Error())
	}
	if p.Via = to.String(); u.User != nil {
		password, _ := u.User.Password()
		p.Authorization = Basic(u.User.Username() + ":" + password)
	}
	return p, nil
}

// Via returns a proxy's host:port; "": none.
func (u ProxyURL) Via() string {
	if u == "" {
		return ""
	}
	p, err := ParseProxy(u)
	if err != nil {
		return string(u)
	}
	return p.Via
}

// checkProxy validates the proxy with a URL that leads to an address.
func checkProxy(d *Dial, to Address) error {
	if d.Proxy == "" {
		return nil
	}
	_, err := ParseProxy(d.Proxy)
	switch {
	case err != nil:
		return err
	case d.Unix != "" || to.Network == Unix:
		return errors.New("--proxy: a unix socket is not behind a proxy; remove one of them")
	case len(d.Resolve) > 0:
		return errors.New("--proxy, --resolve: the proxy looks the host up; remove one of them")
	}
	return nil
}
