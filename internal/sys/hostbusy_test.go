package sys

import "testing"

func TestParseHostBusy(t *testing.T) {
	got, err := parseHostBusy([]byte("cpu  100758 14914 25692 475521 2435 3 2632 128 7 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n"))
	if want := int64(100758+14914+25692+3+2632) * 10e6; err != nil || got != want {
		t.Errorf("%d, %v; want %d", got, err, want)
	}
	for _, text := range []string{"", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3\n", "cpu  a 2 3 4 5 6 7 8\n"} {
		if n, err := parseHostBusy([]byte(text)); err == nil {
			t.Errorf("%q was taken: %d", text, n)
		}
	}
}
