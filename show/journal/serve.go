package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ceiling/internal/rebind"
	"ceiling/record"
)

// Handler shows a journal as it is now: a request looks whether a file of it has
// changed, and has the pages made anew then. It answers requests to this machine
// alone: those whose Host is an address, or localhost, so that the name of
// another site cannot be made to mean it (DNS rebinding).
type Handler struct {
	dir   string
	store record.Store

	mu    sync.Mutex
	state string // of the files that the site was made of
	site  *Site
	err   error
}

// NewHandler serves the journal in a folder.
func NewHandler(dir string, store record.Store) *Handler { return &Handler{dir: dir, store: store} }

// current is the site of the files as they are.
func (h *Handler) current() (*Site, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	state, err := stateOf(h.dir, h.store.Dir)
	if err != nil {
		return nil, err
	}
	if state == h.state && (h.site != nil || h.err != nil) {
		return h.site, h.err
	}
	h.state = state
	h.site, h.err = nil, nil
	j, err := Read(h.dir, h.store)
	if err == nil {
		h.site, err = Build(j)
	}
	h.err = err
	return h.site, h.err
}

// stateOf changes when a file of the journal does. Of the store the folder
// alone is looked at: records that are in it do not change.
func stateOf(dir, store string) (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name != dir && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if info, failed := os.Stat(store); failed == nil {
		fmt.Fprintf(&b, "%s %d\n", store, info.ModTime().UnixNano())
	}
	return b.String(), err
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Security-Policy", "frame-ancestors 'none'")
	if !rebind.Safe(r.Host, false) {
		http.Error(w, "this journal answers to its address and to localhost alone", http.StatusMisdirectedRequest)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	site, err := h.current()
	if err != nil {
		failed(w, r, err)
		return
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if name == "" || name == "." {
		name = IndexPage
	}
	data, there := site.Files[name]
	if !there {
		http.Error(w, "there is no such page in this journal", http.StatusNotFound)
		return
	}
	head.Set("Content-Type", typeOf(name))
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
}

// typeOf is by the endings that files of a site have, and not by what this
// machine makes of them.
func typeOf(name string) string {
	kind := map[string]string{".html": "text/html; charset=utf-8", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
		".gif":  "image/gif",
		".webp": "image/webp", ".avif": "image/avif", ".pdf": "application/pdf", ".json": "application/json",
		".xml": "application/atom+xml", ".csv": "text/csv; charset=utf-8"}[strings.ToLower(path.Ext(name))]
	if kind == "" {
		return "text/plain; charset=utf-8"
	}
	return kind
}

// failed is the page of a journal that cannot be built.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	lines := []string{err.Error()}
	var mistakes Mistakes
	if errors.As(err, &mistakes) {
		lines = nil
		for _, m := range mistakes {
			lines = append(lines, m.Error())
		}
	}
	main, failure := execute("failed", lines)
	var html []byte
	if failure == nil {
		html, failure = layout{Title: "Mistakes · journal · ceiling", Heading: "Mistakes", Main: main, Footer: "ceiling journal serve",
			Trail: []trail{{"Journal", "/"}, {"mistakes", ""}}}.whole()
	}
	if failure != nil {
		http.Error(w, errors.Join(err, failure).Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusInternalServerError)
	if r.Method == http.MethodGet {
		// A browser that has gone away is not told anything.
		_, _ = w.Write(html)
	}
}
