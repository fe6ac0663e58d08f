package verdict

import (
	"fmt"

	"ceiling/record"
)

// nextWall is the resource that would be full next, at what multiple of this
// run's rate; nil where none is known. In a fight for the same cores neither
// side's CPU is a wall of its own.
func nextWall(f *facts, ceiling string, all []finding) *record.Wall {
	var wall *record.Wall
	for _, found := range all {
		switch {
		case found.times < 1 || found.times > timesMost || found.ceiling == ceiling:
			continue
		case ceiling == SharedCPU && (found.ceiling == Generator || found.ceiling == ServerCPU || found.ceiling == ServerThread):
			continue
		case found.ceiling == ServerThread && sameThing(ceiling, found.ceiling):
			continue
		case found.ceiling == ServerCPU && ceiling == ServerThread && f.together:
			continue // there the generator takes part of the cores
		}
		if wall == nil || found.times < wall.Times {
			wall = &record.Wall{Ceiling: found.ceiling, Times: found.times,
				Says: fmt.Sprintf("%s, at about %.2g× this rate (%s)", found.ceiling, found.times, found.nearly)}
		}
	}
	return wall
}
