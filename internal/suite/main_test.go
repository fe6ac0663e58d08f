package main

import (
	"strings"
	"testing"
)

// What a person reads of a run: its packages, the output of a failed test alone, what was skipped
// and why, and the counts.
func TestReport(t *testing.T) {
	const events = `
{"Action":"output","Package":"ceiling/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"ceiling/a","Test":"TestGood","Output":"    a_test.go:3: a log line\n"}
{"Action":"pass","Package":"ceiling/a","Test":"TestGood"}
{"Action":"output","Package":"ceiling/a","Test":"TestRoot","Output":"    a_test.go:9: needs root\n"}
{"Action":"output","Package":"ceiling/a","Test":"TestRoot","Output":"--- SKIP: TestRoot (0.00s)\n"}
{"Action":"skip","Package":"ceiling/a","Test":"TestRoot"}
{"Action":"output","Package":"ceiling/a","Test":"TestParts/one","Output":"    a_test.go:12: needs nginx\n"}
{"Action":"output","Package":"ceiling/a","Test":"TestParts/one","Output":"    --- SKIP: TestParts/one (0.00s)\n"}
{"Action":"skip","Package":"ceiling/a","Test":"TestParts/one"}
{"Action":"output","Package":"ceiling/a","Test":"TestParts/two","Output":"        > [short] skip 'needs nginx'\n"}
{"Action":"output","Package":"ceiling/a","Test":"TestParts/two","Output":"    --- SKIP: TestParts/two (0.00s)\n"}
{"Action":"skip","Package":"ceiling/a","Test":"TestParts/two"}
{"Action":"pass","Package":"ceiling/a","Test":"TestParts"}
{"Action":"output","Package":"ceiling/a","Test":"TestOther","Output":"    a_test.go:20: no such device\n"}
{"Action":"output","Package":"ceiling/a","Test":"TestOther","Output":"--- SKIP: TestOther (0.00s)\n"}
{"Action":"skip","Package":"ceiling/a","Test":"TestOther"}
{"Action":"output","Package":"ceiling/a","Test":"TestPictures","Output":"    a_test.go:30: run with PICTURES=…\n"}
{"Action":"output","Package":"ceiling/a","Test":"TestPictures","Output":"--- SKIP: TestPictures (0.00s)\n"}
{"Action":"skip","Package":"ceiling/a","Test":"TestPictures"}
{"Action":"output","Package":"ceiling/a","Output":"PASS\n"}
{"Action":"output","Package":"ceiling/a","Output":"ok  \tceiling/a\t0.1s\n"}
{"Action":"pass","Package":"ceiling/a"}
{"Action":"output","Package":"ceiling/b","Test":"TestBad","Output":"    b_test.go:7: 1, want 2\n"}
{"Action":"output","Package":"ceiling/b","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"ceiling/b","Test":"TestBad"}
{"Action":"output","Package":"ceiling/b","Output":"FAIL\tceiling/b\t0.1s\n"}
{"Action":"fail","Package":"ceiling/b"}
{"Action":"build-output","ImportPath":"ceiling/c","Output":"c.go:1: syntax error\n"}
`
	const want = `ok  	ceiling/a	0.1s
    b_test.go:7: 1, want 2
--- FAIL: TestBad (0.00s)
FAIL	ceiling/b	0.1s
c.go:1: syntax error
skipped: a TestOther: no such device
left to make test-all, by what the tests need: nginx (2), root (1)
2 passed, 1 failed, 4 skipped
`
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(strings.TrimSpace(events))); err != nil {
		t.Fatal(err)
	}
	r.summarize()
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}
