package verdict

import (
	"fmt"

	"ceiling/record"
)

// nextWall is the resource that would be full next, at what multiple of this
// run's rate; nil where none is known. In a fight for the same cores neither
// side's CPU is a wall of its own.
func nextWall(f *facts, ceiling record.Bottleneck, all []finding) *record.NextBottleneck {
	var wall *record.NextBottleneck
	for _, found := range all {
		switch {
		case found.times < 1 || found.times > timesMost || found.ceiling == ceiling:
			continue
		case ceiling == record.SharedCPU && (found.ceiling == record.LoadGenerator || found.ceiling == record.ServerCPU ||
			found.ceiling == record.ServerThread):
			continue
		case found.ceiling == record.ServerThread && sameThing(ceiling, found.ceiling):
			continue
		case found.ceiling == record.ServerCPU && ceiling == record.ServerThread && f.together:
			continue // there the generator takes part of the cores
		}
		if wall == nil || found.times < wall.Times {
			wall = &record.NextBottleneck{Bottleneck: found.ceiling, Times: found.times,
				Says: fmt.Sprintf("%s, at about %.2g× this rate (%s)", found.ceiling, found.times, found.nearly)}
		}
	}
	return wall
}
