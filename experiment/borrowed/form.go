package borrowed

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"path/filepath"
	"strings"
)

// part of a multipart body.
type part struct {
	name, kind string
	filename   *string // nil: it is not a file
	content    []byte
}

// multipartOf writes a multipart/form-data body (RFC 7578), with names escaped as in HTML.
func multipartOf(parts []part, boundary string) ([]byte, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	err := w.SetBoundary(boundary)
	escape := strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A")
	for _, p := range parts {
		h := textproto.MIMEHeader{}
		text := "form-data"
		if p.name != "" {
			text += `; name="` + escape.Replace(p.name) + `"`
		}
		if p.filename != nil {
			text += `; filename="` + escape.Replace(*p.filename) + `"`
		}
		h.Set("Content-Disposition", text)
		if p.kind != "" {
			h.Set("Content-Type", p.kind)
		}
		if err != nil {
			return nil, err
		}
		var to io.Writer
		if to, err = w.CreatePart(h); err == nil {
			_, err = to.Write(p.content)
		}
	}
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// addForm adds a part of a form: name=text, name=@file or name=<file, with ;type= and ;filename=.
func (c *command) addForm(option, value string) (err error) {
	name, text, found := strings.Cut(value, "=")
	p := part{name: name, content: []byte(text)}
	switch {
	case !found:
		err = errors.New("no =")
	case option == "form":
		err = c.readPart(&p, text)
	}
	if err != nil {
		return fmt.Errorf("--%s %.20q: %w; name=text, name=@file and name=<file are read, with ;type= and ;filename=", option, value, err)
	}
	c.form = append(c.form, p)
	return nil
}

// readPart reads what follows the name of a part.
func (c *command) readPart(p *part, text string) (err error) {
	ends, from := ";", text[:min(1, len(text))]
	switch from {
	case "(", ")":
		return errors.New("parts within parts")
	case "@", "<":
		ends, text = ";,", text[1:]
	default:
		from = ""
	}
	content, rest := formWord(text, ends)
	p.content = []byte(content)
	inType := false
	for strings.HasPrefix(rest, ";") {
		word := strings.TrimLeft(rest[1:], " ")
		end := 1 + strings.IndexByte(rest[1:]+";", ';')
		switch {
		case p.kind == "" && strings.HasPrefix(word, "type="):
			p.kind, inType = strings.TrimSpace(rest[strings.IndexByte(rest, '=')+1:end]), true
		case strings.HasPrefix(word, "filename="):
			filename, after := formWord(strings.TrimLeft(word[len("filename="):], " "), ends)
			p.filename, inType, end = &filename, false, len(rest)-len(after)
		case inType && !strings.HasPrefix(word, "headers=") && !strings.HasPrefix(word, "encoder="):
			p.kind += strings.TrimRight(rest[:end], " ")
		default:
			return fmt.Errorf("%.20q is not read", word)
		}
		rest = rest[end:]
	}
	if rest != "" || inType && !strings.Contains(p.kind, "/") {
		return errors.New("several files, or not a type")
	}
	if from != "" {
		if p.content, err = c.open(content); err != nil {
			return err
		}
	}
	switch {
	case from == "<":
		p.filename = nil
	case from == "@" && p.filename == nil:
		base := filepath.Base(content)
		p.filename = &base
	}
	if p.kind != "" {
		return nil
	}
	kinds := map[string]string{".gif": "image/gif", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".svg": "image/svg+xml",
		".txt": "text/plain", ".htm": "text/html", ".html": "text/html", ".pdf": "application/pdf", ".xml": "application/xml"}
	byName := func(name string) string { return kinds[strings.ToLower(filepath.Ext(name))] }
	if p.filename != nil {
		p.kind = byName(*p.filename)
	}
	if p.kind == "" && from != "" {
		p.kind = byName(content)
	}
	if from == "@" {
		p.kind = cmp.Or(p.kind, "application/octet-stream")
	} else if from == "<" && p.kind == "text/plain" {
		p.kind = ""
	}
	return nil
}

// formWord cuts a word of a part off at one of ends; quotes may stand around it.
func formWord(text, ends string) (word, rest string) {
	text = strings.TrimLeft(text, " ")
	if strings.HasPrefix(text, `"`) {
		var b []byte
		for i := 1; i < len(text); i++ {
			switch {
			case text[i] == '"':
				end := strings.IndexAny(text[i:]+";", ends)
				return string(b), text[i:][min(end, len(text)-i):]
			case text[i] == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
				i++
			}
			b = append(b, text[i])
		}
	}
	end := strings.IndexAny(text+";", ends)
	return strings.TrimRight(text[:end], " "), text[end:]
}
