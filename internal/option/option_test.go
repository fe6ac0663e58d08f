package option

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestRead(t *testing.T) {
	for text, want := range map[string][]string{
		"own": nil, "a=1": {"a=1"}, "a=1,b=2=3,c,": {"a=1", "b=2=3", "c=", "="}, "": {"="},
	} {
		var got []string
		err := Read(text, "x=1", func(name, value string) error {
			got = append(got, name+"="+value)
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	bad := errors.New("no such option")
	err := Read("a=1,b=2", "x=1, or own", func(name, _ string) error {
		if name == "b" {
			return bad
		}
		return nil
	})
	if !errors.Is(err, bad) || fmt.Sprint(err) != `"b=2": no such option; write it like x=1, or own` {
		t.Error(err)
	}
}
