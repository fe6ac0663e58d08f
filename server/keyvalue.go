package server

import "strings"

// kvPath is the bucket's path; those below it are its keys'. Package quorum answers them.
const kvPath = "/kv"

// keyOf returns the key that a path names: "" for the bucket itself.
func keyOf(path string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(path, kvPath)
	if !ok || rest == "" {
		return "", ok
	}
	key, ok = strings.CutPrefix(rest, "/")
	return key, ok && key != "" && !strings.Contains(key, "/")
}
