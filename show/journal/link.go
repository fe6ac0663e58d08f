package journal

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
)

// imageTypes and fileTypes are the file types that an entry's page may show and link to: none can
// run code in a browser.
var (
	imageTypes = []string{".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif"}                                             // read-only
	fileTypes  = []string{".txt", ".yaml", ".yml", ".toml", ".json", ".ndjson", ".csv", ".hgrm", ".hdr", ".log", ".pdf"} // read-only
)

// link validates a link and returns its target in the site. It does not fetch pages of other
// sites: it checks only links within the journal.
func (w *written) link(line int, destination []byte, image bool) []byte {
	to, err := w.resolveLink(string(destination), image)
	if err != nil {
		w.wrong.add(w.File, line, "link to %q: %v", clip(string(destination)), err)
		return nil
	}
	return []byte(to)
}

func (w *written) resolveLink(destination string, image bool) (string, error) {
	u, err := url.Parse(destination)
	switch {
	case destination == "":
		return "", errors.New("it leads nowhere")
	case err != nil:
		return "", errors.New("not an address")
	case u.Scheme != "" || u.Host != "":
		if image {
			return "", errors.New("a page loads nothing from elsewhere; put the image into the entry's folder")
		}
		if (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") && u.Scheme != "mailto" {
			return "", errors.New("links go to http, https and mailto, or to what is in the journal")
		}
		return destination, nil
	case u.Path == "":
		if !w.anchors[u.Fragment] {
			return "", fmt.Errorf("no such heading%s", nearTo(u.Fragment, slices.Sorted(maps.Keys(w.anchors))))
		}
		return destination, nil
	}
	return w.local(u, image)
}

// local resolves a link to another entry or a file of the entry.
func (w *written) local(u *url.URL, image bool) (string, error) {
	clean := path.Clean(u.Path)
	if path.IsAbs(clean) {
		return "", errors.New("a link within the journal is relative to the entry's folder")
	}
	rest, up := strings.CutPrefix(clean, "../")
	if w.Name == "" { // the index, in the journal's folder
		rest, up = clean, !up && strings.HasSuffix(clean, "/"+entryFile)
	}
	if up {
		name, file, _ := strings.Cut(rest, "/")
		for _, other := range w.entries {
			switch {
			case other.Name != name || file != "" && file != entryFile || image:
			case u.Fragment == "":
				return other.Page(), nil
			case !other.anchors[u.Fragment]:
				return "", fmt.Errorf("it has no heading %q%s", clip(u.Fragment), nearTo(u.Fragment, slices.Sorted(maps.Keys(other.anchors))))
			default:
				return other.Page() + "#" + u.EscapedFragment(), nil
			}
		}
		return "", errors.New("outside of the entry's folder there are only other entries, as in ../0001-a-title/entry.md")
	}
	return w.file(clean, image)
}

// file adds a file of the entry's folder to the site.
func (w *written) file(name string, image bool) (string, error) {
	types := fileTypes
	if image {
		types = imageTypes
	}
	if ending := strings.ToLower(path.Ext(name)); !slices.Contains(types, ending) && (image || !slices.Contains(imageTypes, ending)) {
		return "", fmt.Errorf("files that end in %q are not tested; these are: %s", ending, strings.Join(types, " "))
	}
	data, err := w.read(name, "image.png")
	if err != nil {
		return "", err
	}
	to := path.Join(w.Name, name)
	w.files[to] = data
	return (&url.URL{Path: to}).String(), nil
}

func recordPage(id string) string { return "runs/" + id + ".html" }

// csvPage is the path of a sweep's points as CSV.
func csvPage(id string) string { return "runs/" + id + ".csv" }
