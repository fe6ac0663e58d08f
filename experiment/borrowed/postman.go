package borrowed

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"ceiling/experiment/spec"
)

// collection is a Postman collection, 2.0 or 2.1: requests in folders.
type collection struct {
	Item     []item `json:"item"`
	Variable []pair `json:"variable"`
	Auth     *auth  `json:"auth"`
}

type item struct {
	Name    string          `json:"name"`
	Item    []item          `json:"item"`
	Auth    *auth           `json:"auth"`
	Request json.RawMessage `json:"request"`
}

type pair struct {
	Key      string `json:"key"`
	Value    any    `json:"value"`
	Disabled bool   `json:"disabled"`
}

func (p *pair) text() string {
	if p.Value == nil {
		return ""
	}
	return fmt.Sprint(p.Value)
}

type auth struct {
	Type   string `json:"type"`
	Bearer []pair `json:"bearer"`
	Basic  []pair `json:"basic"`
}

type postmanRequest struct {
	Method string          `json:"method"`
	URL    json.RawMessage `json:"url"`
	Header []pair          `json:"header"`
	Auth   *auth           `json:"auth"`
	Body   *struct {
		Mode       string `json:"mode"`
		Raw        string `json:"raw"`
		URLEncoded []pair `json:"urlencoded"`
	} `json:"body"`
}

// foldersMost bounds the depth of folders.
const foldersMost = 100

// readPostman reads a collection. What it cannot make is left out by name.
func readPostman(data []byte) (*Set, error) {
	var c collection
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("not a Postman collection: %w", err)
	}
	known := variables{}
	for _, v := range c.Variable {
		known[v.Key] = v.text()
	}
	s := &Set{}
	s.folder(c.Item, c.Auth, known, "", 0)
	return s, nil
}

func (s *Set) folder(items []item, above *auth, known variables, path string, depth int) {
	for i := range items {
		it := &items[i]
		name := strings.TrimPrefix(path+" / "+it.Name, " / ")
		if it.Auth == nil {
			it.Auth = above
		}
		if len(it.Item) > 0 && depth < foldersMost {
			s.folder(it.Item, it.Auth, known, name, depth+1)
		}
		if it.Request == nil {
			continue
		}
		r, err := it.request(known)
		if err != nil {
			s.Left = append(s.Left, fmt.Sprintf("left out: %s: %v", name, err))
			continue
		}
		s.Requests = append(s.Requests, *r)
	}
}

func (it *item) request(known variables) (*Request, error) {
	var q postmanRequest
	var address string
	if json.Unmarshal(it.Request, &address) == nil { // a URL alone
		q = postmanRequest{Method: "GET", URL: it.Request}
	} else if err := json.Unmarshal(it.Request, &q); err != nil {
		return nil, err
	}
	var whole struct {
		Raw string `json:"raw"`
	}
	if json.Unmarshal(q.URL, &address) != nil {
		if err := json.Unmarshal(q.URL, &whole); err != nil || whole.Raw == "" {
			return nil, fmt.Errorf("its URL has no text")
		}
		address = whole.Raw
	}
	r := &Request{Method: q.Method}
	var err error
	if r.URL, err = known.fill(address); err != nil {
		return nil, err
	}
	if !strings.Contains(r.URL, "://") {
		r.URL = "http://" + r.URL
	}
	for _, h := range q.Header {
		if h.Disabled || sent(h.Key) {
			continue
		}
		value, err := known.fill(h.text())
		if err != nil {
			return nil, err
		}
		r.Header = append(r.Header, spec.Field{Name: h.Key, Value: value})
	}
	if err := q.addBody(r, known); err != nil {
		return nil, err
	}
	if q.Auth == nil {
		q.Auth = it.Auth
	}
	return r, q.Auth.add(r, known)
}

func (q *postmanRequest) addBody(r *Request, known variables) error {
	if q.Body == nil || q.Body.Mode == "" {
		return nil
	}
	switch q.Body.Mode {
	case "raw":
		text, err := known.fill(q.Body.Raw)
		r.Body = []byte(text)
		return err
	case "urlencoded":
		var parts []string
		for _, p := range q.Body.URLEncoded {
			value, err := known.fill(p.text())
			if err != nil {
				return err
			}
			if !p.Disabled {
				parts = append(parts, url.QueryEscape(p.Key)+"="+url.QueryEscape(value))
			}
		}
		r.Body = []byte(strings.Join(parts, "&"))
		r.Header = append(r.Header, spec.Field{Name: "Content-Type", Value: "application/x-www-form-urlencoded"})
		return nil
	}
	return fmt.Errorf("its body is %s; raw and urlencoded can be sent", q.Body.Mode)
}

// add adds the field of an authorization.
func (a *auth) add(r *Request, known variables) error {
	if a == nil || a.Type == "" || a.Type == "noauth" {
		return nil
	}
	of := func(list []pair, key string) (string, error) {
		for _, p := range list {
			if p.Key == key {
				return known.fill(p.text())
			}
		}
		return "", nil
	}
	value := ""
	switch a.Type {
	case "bearer":
		token, err := of(a.Bearer, "token")
		if err != nil {
			return err
		}
		value = "Bearer " + token
	case "basic":
		user, err := of(a.Basic, "username")
		if err != nil {
			return err
		}
		password, err := of(a.Basic, "password")
		if err != nil {
			return err
		}
		value = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	default:
		return fmt.Errorf("its authorization is %s; bearer and basic can be sent", a.Type)
	}
	r.Header = append(r.Header, spec.Field{Name: "Authorization", Value: value})
	return nil
}
