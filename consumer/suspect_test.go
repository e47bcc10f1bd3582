package consumer

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/onefold-go/onefold"
)

func TestHowAMessageRunsDependsOnTheStartsThatWereCutShort(t *testing.T) {
	for name, c := range map[string]struct {
		starts, failures    int
		suspect, wary, park bool
		want                caution
	}{
		"a fresh message costs nothing":                    {0, 0, false, true, false, cautionNone},
		"a suspect is counted":                             {0, 0, true, true, false, cautionCount},
		"failures are no cut-short starts":                 {0, 5, false, true, false, cautionNone},
		"a suspect that has failed is counted":             {0, 5, true, true, false, cautionCount},
		"a start that failed was not cut short":            {1, 1, true, true, false, cautionCount},
		"one cut-short start runs alone":                   {1, 0, true, true, false, cautionAlone},
		"also when the store was closed cleanly meanwhile": {1, 0, true, true, false, cautionAlone},
		"also among failures":                              {6, 5, true, true, false, cautionAlone},
		"the second one is its own doing":                  {2, 0, true, true, false, cautionBlame},
		"not once all suspects are settled":                {1, 0, false, false, false, cautionNone},
		"nor a copy that came later":                       {1, 0, false, true, false, cautionNone},
		"which blames nobody less":                         {2, 0, false, false, false, cautionBlame},
		"parked after one":                                 {1, 0, false, true, true, cautionPark},
		"parked after more":                                {9, 2, true, true, true, cautionPark},
		"failures park nothing":                            {3, 3, true, true, true, cautionNone},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, beforeRun(onefold.History{Starts: c.starts, Failures: c.failures}, c.suspect, c.wary, c.park))
		})
	}
}

func TestWhichMessagesAreSuspects(t *testing.T) {
	died := opening{epoch: 2, created: 7, last: 1000, floor: 100, seen: 150, delivered: 160, pending: 50}
	clean := died
	clean.clean = true
	for name, c := range map[string]struct {
		old    suspicion
		now    opening
		change func(*opening)
		want   suspicion
	}{
		"nothing after a clean end":           {suspicion{Created: 7, Epoch: 1}, clean, nil, suspicion{Created: 7, Epoch: 2}},
		"what may have been running":          {suspicion{Created: 7, Epoch: 1}, died, nil, suspicion{Created: 7, Epoch: 2, Until: 210, Deaths: 1}},
		"also if it is the first start":       {suspicion{}, died, nil, suspicion{Created: 7, Epoch: 2, Until: 210, Deaths: 1}},
		"no more than there is":               {suspicion{}, died, func(o *opening) { o.last = 170 }, suspicion{Created: 7, Epoch: 2, Until: 170, Deaths: 1}},
		"a server that has forgotten":         {suspicion{}, died, func(o *opening) { o.delivered = 0 }, suspicion{Created: 7, Epoch: 2, Until: 200, Deaths: 1}},
		"all there is after a second death":   {suspicion{Created: 7, Epoch: 1, Until: 210, Deaths: 1}, died, nil, suspicion{Created: 7, Epoch: 2, Until: 1000, Deaths: 2}},
		"all there is if nothing bounds it":   {suspicion{}, died, func(o *opening) { o.pending = -1 }, suspicion{Created: 7, Epoch: 2, Until: 1000, Deaths: 1}},
		"a clean end between two deaths":      {suspicion{Created: 7, Epoch: 1, Until: 210, Deaths: 1}, clean, nil, suspicion{Created: 7, Epoch: 2, Until: 210}},
		"it ends when all of them is settled": {suspicion{Created: 7, Epoch: 1, Until: 100, Deaths: 1}, clean, nil, suspicion{Created: 7, Epoch: 2}},
		"a second Run on an open store":       {suspicion{Created: 7, Epoch: 2, Until: 210, Deaths: 1}, died, nil, suspicion{Created: 7, Epoch: 2, Until: 210, Deaths: 1}},
		"a store without epochs":              {suspicion{Created: 7, Deaths: 1}, died, func(o *opening) { o.epoch = 0 }, suspicion{Created: 7, Until: 1000, Deaths: 2}},
		"a stream made anew has none":         {suspicion{Created: 6, Epoch: 1, Until: 999, Deaths: 5}, clean, nil, suspicion{Created: 7, Epoch: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.now
			if c.change != nil {
				c.change(&o)
			}
			assert.Equal(t, c.want, c.old.next(o))
		})
	}
}
