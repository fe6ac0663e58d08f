package ceiling

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ceiling/internal/needs"
)

// sizesFile is the table of what the house holds: a section a kind, a line a name with its numbers.
const sizesFile = "docs/sizes.txt"

var lower = flag.Bool("lower", false, "write docs/sizes.txt: numbers that fell, names that are new or gone") // read-only

// maxHeldFields and maxHeldMethods are what a reader can hold of one type.
const maxHeldFields, maxHeldMethods = 50, 60

// sizes has the table's numbers by section and name.
type sizes map[string]map[string][]int

// columns names each section's numbers. Sections that take a build are read in make test-all alone.
func columns() map[string][]string {
	return map[string][]string{
		"rooms":    {"lines", "lines of tests", "files"},
		"programs": {"packages", "lines linked"},
		"stripped": {"tenths of a MB"},
		"types":    {"fields", "methods"},
		"arrows":   {"back"},
		"clocks":   {"reads"},
	}
}

// TestSizes holds the house to docs/sizes.txt: no number rises, no name comes without a line.
func TestSizes(t *testing.T) {
	all := sources(t)
	holdSizes(t, sizes{
		"rooms":    roomsOf(t),
		"programs": programsOf(t),
		"types":    heldByTypes(all),
		"arrows":   tangled(all),
		"clocks":   clocksOf(all),
	})
}

// TestStrippedSizes holds the four programs to the size of what is installed.
func TestStrippedSizes(t *testing.T) {
	needs.Time(t)
	dir, got := t.TempDir(), map[string][]int{}
	for _, name := range programNames() {
		file := filepath.Join(dir, name)
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, "./cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		built, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = []int{int((built.Size() + 99_999) / 100_000)}
	}
	holdSizes(t, sizes{"stripped": got})
}

// TestSizesOnlyFall compares the table with the one of the last commit that wrote it: a number that
// rose has a line in docs/decisions/049-sizes.md that gives it, and says what for. A line whose number is
// no longer the table's has done its work: left there, it would let the number rise again.
func TestSizesOnlyFall(t *testing.T) {
	last, err := exec.Command("git", "log", "-2", "--format=%H", "--", sizesFile).Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sizesFile)
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := os.ReadFile("docs/decisions/049-sizes.md")
	if err != nil {
		t.Fatal(err)
	}
	now := parseSizes(t, string(text))
	for line := range strings.Lines(string(reasons)) {
		if named, ok := strings.CutPrefix(line, "- `"); ok {
			if rose, _, _ := strings.Cut(named, "`"); !slices.Contains(rises(now.none(), now), rose) {
				t.Errorf("%s is not in %s any more: remove its line from docs/decisions/049-sizes.md", rose, sizesFile)
			}
		}
	}
	for commit := range strings.FieldsSeq(string(last)) {
		before, err := exec.Command("git", "show", commit+":"+sizesFile).Output()
		if err != nil {
			t.Fatal(err) // a shallow clone has no history to compare with
		}
		for _, rise := range rises(parseSizes(t, string(before)), now) {
			if !strings.Contains(string(reasons), "- `"+rise+"`: ") {
				t.Errorf("%s rose since %.8s: delete something, or say what for in docs/decisions/049-sizes.md: - `%[1]s`: …", rise, commit)
			}
		}
	}
}

// none has the sections and no names: every number has risen since.
func (s sizes) none() sizes {
	empty := sizes{}
	for section := range s {
		empty[section] = map[string][]int{}
	}
	return empty
}

// rises names the numbers of now that are larger than before's: "rooms proxy lines 12000".
func rises(before, now sizes) (list []string) {
	for section, names := range now {
		for name, numbers := range names {
			old := before[section][name]
			for i, n := range numbers {
				if before[section] != nil && held(section, name, i) && (old == nil || n > old[i]) {
					list = append(list, fmt.Sprintf("%s %s %s %d", section, name, columns()[section][i], n))
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// held reports whether a number only falls. Tests may move between rooms, and a mended fault has one:
// their lines are held together.
func held(section, name string, column int) bool {
	return columns()[section][column] != "lines of tests" || name == "all"
}

// slack is how far a number may lie below the table's, so that not every commit writes it.
func slack(n int) int { return n/50 + 5 }

func holdSizes(t *testing.T, got sizes) {
	t.Helper()
	text, err := os.ReadFile(sizesFile)
	if err != nil {
		t.Fatal(err)
	}
	table := parseSizes(t, string(text))
	if *lower {
		for section, names := range got {
			table.lower(section, names)
		}
		if err := os.WriteFile(sizesFile, []byte(table.format()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for section, names := range got {
		for name, numbers := range names {
			may := table[section][name]
			for i, n := range numbers {
				switch column := columns()[section][i]; {
				case may == nil:
					t.Errorf("%s %s: %d %s: not in %s", section, name, n, column, sizesFile)
				case !held(section, name, i):
				case n > may[i]:
					t.Errorf("%s %s: %d %s; %s says %d, and its numbers only fall", section, name, n, column, sizesFile, may[i])
				case n < may[i]-slack(may[i]):
					t.Errorf("%s %s: %d %s; %s still says %d: go test . -run Sizes -lower", section, name, n, column, sizesFile, may[i])
				}
			}
		}
		for name := range table[section] {
			if names[name] == nil {
				t.Errorf("%s %s is gone: go test . -run Sizes -lower", section, name)
			}
		}
	}
}

// lower takes numbers that fell, and names that are new or gone. One that rose stays, for a hand to
// raise it with its reason.
func (s sizes) lower(section string, got map[string][]int) {
	for name, numbers := range got {
		for i := range numbers {
			if may := s[section][name]; may != nil && held(section, name, i) {
				numbers[i] = min(numbers[i], may[i])
			}
		}
	}
	s[section] = got
}

// format writes the table, the largest first.
func (s sizes) format() string {
	var b strings.Builder
	b.WriteString("# What a reader of this repository holds. tidy_size_test.go explains and tests it; numbers only fall:\n" +
		"# go test . -run Sizes -lower\n")
	for _, section := range slices.Sorted(maps.Keys(s)) {
		names := s[section]
		fmt.Fprintf(&b, "\n[%s] %s\n", section, strings.Join(columns()[section], ", "))
		byNumbers := slices.SortedFunc(maps.Keys(names), func(x, y string) int {
			return cmp.Or(slices.Compare(names[y], names[x]), cmp.Compare(x, y))
		})
		for _, name := range byNumbers {
			fmt.Fprintf(&b, "%-36s", name)
			for _, n := range names[name] {
				fmt.Fprintf(&b, "%8d", n)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func parseSizes(t *testing.T, text string) sizes {
	t.Helper()
	table, section := sizes{}, ""
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if name, ok := strings.CutPrefix(fields[0], "["); ok {
			section = strings.TrimSuffix(name, "]")
			table[section] = map[string][]int{}
			continue
		}
		var numbers []int
		for _, field := range fields[1:] {
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatalf("%s: %v", sizesFile, err)
			}
			numbers = append(numbers, n)
		}
		if len(numbers) != len(columns()[section]) {
			t.Fatalf("%s: [%s] %s has %d numbers, want %v", sizesFile, section, fields[0], len(numbers), columns()[section])
		}
		table[section][fields[0]] = numbers
	}
	return table
}

// roomsOf counts lines of Go, of tests, and files of every folder with Go in it, and of all.
func roomsOf(t *testing.T) map[string][]int {
	t.Helper()
	tracked, err := exec.Command("git", "ls-files", "-coz", "--exclude-standard", "*.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	rooms := map[string][]int{}
	for name := range strings.SplitSeq(strings.TrimRight(string(tracked), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		kind := 0
		if strings.HasSuffix(name, "_test.go") {
			kind = 1
		}
		for _, room := range []string{filepath.ToSlash(filepath.Dir(name)), "all"} {
			if rooms[room] == nil {
				rooms[room] = make([]int, 3)
			}
			rooms[room][kind] += strings.Count(string(text), "\n")
			rooms[room][2]++
		}
	}
	return rooms
}

func programNames() []string {
	return []string{"ceiling", "ceiling-controller", "ceiling-lab", "ceiling-proxy"}
}

// programsOf counts the packages that each program links, and the lines of those of this module.
func programsOf(t *testing.T) map[string][]int {
	t.Helper()
	programs := map[string][]int{}
	for _, name := range programNames() {
		list := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}}|{{.Dir}}|{{join .GoFiles \" \"}}", "./cmd/"+name)
		list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		count := make([]int, 2)
		for line := range strings.Lines(string(out)) {
			count[0]++
			parts := strings.Split(strings.TrimSpace(line), "|")
			if !strings.HasPrefix(parts[0], "ceiling/") {
				continue
			}
			for file := range strings.FieldsSeq(parts[2]) {
				text, err := os.ReadFile(filepath.Join(parts[1], file))
				if err != nil {
					t.Fatal(err)
				}
				count[1] += strings.Count(string(text), "\n")
			}
		}
		programs[name] = count
	}
	return programs
}

// clock is what a test reads or waits for that a machine decides, not the program.
var clock = regexp.MustCompile(`^(time\.(Sleep|Since|After|Tick)|runtime\.NumGoroutine)$`) // read-only

// clocksOf counts such reads in the tests that make test runs: those whose function does not begin
// with what it needs, or waits on a fake clock.
func clocksOf(all []source) map[string][]int {
	rooms := map[string][]int{}
	for _, s := range all {
		if !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			reads, exempt := 0, false
			ast.Inspect(f.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				name := callName(call)
				if clock.MatchString(name) {
					reads++
				}
				exempt = exempt || strings.HasPrefix(name, "needs.") || strings.HasPrefix(name, "synctest.")
				return true
			})
			if reads > 0 && !exempt {
				if rooms[s.dir] == nil {
					rooms[s.dir] = make([]int, 1)
				}
				rooms[s.dir][0] += reads
			}
		}
	}
	return rooms
}
