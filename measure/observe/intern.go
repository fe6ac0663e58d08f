package observe

// interned keeps one string for each text that was seen, so that the names
// which kernel files repeat ten times a second (interfaces, commands, kernel
// functions) are allocated once.
type interned struct {
	known map[string]string
}

// maxInterned bounds the table. A host has some tens of such names; a program
// that renames its threads all the time is the only way to reach this.
const maxInterned = 4096

func newInterned() *interned {
	return &interned{known: make(map[string]string)}
}

// of returns the text as a string.
func (t *interned) of(text []byte) string {
	if s, ok := t.known[string(text)]; ok {
		return s
	}
	if len(t.known) >= maxInterned {
		clear(t.known)
	}
	s := string(text)
	t.known[s] = s
	return s
}
