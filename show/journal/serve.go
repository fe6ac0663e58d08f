package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ceiling/internal/rebind"
	"ceiling/record"
)

// markFile marks a folder written by Write, which may be replaced.
const markFile = ".ceiling-journal"

// Write writes a site to a folder, atomically. It replaces an existing folder only if that is
// empty or a previously written site.
func Write(s *Site, dir string) error {
	if err := replaceable(dir); err != nil {
		return err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	part, err := os.MkdirTemp(parent, ".journal-")
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	defer os.RemoveAll(part) // no-op after the rename
	if err := s.into(part); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	old := part + "-old"
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write journal: %w", err)
	}
	defer os.RemoveAll(old) // the previous site
	if err := os.Rename(part, dir); err != nil {
		return errors.Join(fmt.Errorf("write journal: %w", err), os.Rename(old, dir))
	}
	return nil
}

// replaceable rejects a folder with other content.
func replaceable(dir string) error {
	list, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("write journal: %w", err)
	case len(list) == 0 || slices.ContainsFunc(list, func(d fs.DirEntry) bool { return d.Name() == markFile }):
		return nil
	}
	return fmt.Errorf("write journal: %s holds other files; give a new folder", dir)
}

func (s *Site) into(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(s.Files)) {
		to := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, s.Files[path], 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, markFile), []byte("Written by ceiling journal build, which replaces this folder.\n"), 0o644)
}

// Handler serves the journal in its current state: each request checks whether a file has
// changed, and if so rebuilds the pages. To prevent DNS rebinding, it only answers requests whose
// Host is an IP address or localhost.
type Handler struct {
	dir   string
	store record.Store

	mu    sync.Mutex
	state string // of the site's source files
	site  *Site  // nil until the journal is right
}

// NewHandler returns a Handler for the journal in a folder.
func NewHandler(dir string, store record.Store) *Handler { return &Handler{dir: dir, store: store} }

// current returns the site of the current files.
func (h *Handler) current() (*Site, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	state, err := stateOf(h.dir, h.store.Dir)
	if err != nil || state == h.state && h.site != nil {
		return h.site, err
	}
	h.state, h.site = state, nil
	j, err := Read(h.dir, h.store)
	if err == nil {
		h.site, err = Build(j)
	}
	return h.site, err
}

// stateOf changes when a file of the journal does. It checks only the folder of the store: saved
// records do not change.
func stateOf(dir, store string) (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != dir && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted in the meantime
		}
		if err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
		}
		return err
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
		http.Error(w, "this journal answers only to its address and to localhost", http.StatusMisdirectedRequest)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	site, err := h.current()
	if err != nil {
		serveMistakes(w, err)
		return
	}
	name := cmp.Or(path.Join("/", r.URL.Path)[1:], IndexPage)
	data, there := site.Files[name]
	if !there {
		http.Error(w, "no such page in this journal", http.StatusNotFound)
		return
	}
	head.Set("Content-Type", typeOf(name))
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
}

// typeOf returns the type by file extension, independent of the machine's settings.
func typeOf(name string) string {
	kind := map[string]string{".html": "text/html; charset=utf-8", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
		".gif": "image/gif", ".webp": "image/webp", ".avif": "image/avif", ".pdf": "application/pdf", ".json": "application/json",
		".xml": "application/atom+xml", ".csv": "text/csv; charset=utf-8"}[strings.ToLower(path.Ext(name))]
	return cmp.Or(kind, "text/plain; charset=utf-8")
}

// serveMistakes serves the error page of a journal that cannot be built.
func serveMistakes(w http.ResponseWriter, err error) {
	html, failure := layout{Title: "Mistakes · journal · ceiling", Heading: "Mistakes", Footer: "ceiling journal serve",
		Trail: []trail{{"Journal", "/"}, {"mistakes", ""}}}.whole("failed", strings.Split(err.Error(), "\n"))
	if failure != nil {
		http.Error(w, errors.Join(err, failure).Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", typeOf(IndexPage))
	w.WriteHeader(http.StatusInternalServerError)
	// Ignore the error: the browser has disconnected.
	_, _ = w.Write(html)
}
