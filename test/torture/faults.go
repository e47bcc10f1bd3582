package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// aim is what a kind of fault strikes.
type aim uint8

const (
	aimWorker  aim = iota // a worker or the sink
	aimLink               // a link between a process and the server
	aimServer             // the server
	aimDurable            // the durable consumer of a worker or the sink
	aimAlways             // not struck: it is a habit of producers or handlers
)

// kind is a kind of fault. least and most bound how long one lasts.
type kind struct {
	name        string
	aim         aim
	weight      int
	least, most time.Duration
	what        string
}

// kinds are all faults there are.
var kinds = []kind{
	{"kill", aimWorker, 12, 0, 500 * time.Millisecond, "SIGKILL of a worker, which starts again after a while"},
	{"point", aimWorker, 14, 0, 500 * time.Millisecond, "SIGKILL of a worker at a named crash point, soon after its start"},
	{"stop", aimWorker, 6, 200 * time.Millisecond, time.Second, "SIGSTOP of a worker, shorter than lease and AckWait"},
	{"stop-long", aimWorker, 3, 3 * time.Second, 7 * time.Second, "SIGSTOP of a worker, longer than lease and AckWait"},
	{"server-kill", aimServer, 4, 0, 2 * time.Second, "SIGKILL of the server, which starts again with its data"},
	{"server-stop", aimServer, 2, 500 * time.Millisecond, 4 * time.Second, "SIGSTOP of the server"},
	{"server-wipe", aimServer, 1, 0, time.Second, "SIGKILL of the server, which starts again without its data"},
	{"cut", aimLink, 6, 0, 0, "all connections of a link are cut"},
	{"away", aimLink, 3, 500 * time.Millisecond, 4 * time.Second, "a link takes no connections"},
	{"delay", aimLink, 4, time.Second, 5 * time.Second, "a link delays by 20 to 320 ms"},
	{"blackhole", aimLink, 4, time.Second, 6 * time.Second, "a link swallows everything"},
	{"half-open", aimLink, 4, time.Second, 6 * time.Second, "a link swallows everything in one direction"},
	{"disk-slow", aimWorker, 2, 2 * time.Second, 6 * time.Second, "syncs of a worker's disk take 200 ms (strace)"},
	{"disk-fail", aimWorker, 2, 2 * time.Second, 6 * time.Second, "a sync of a worker's disk fails (strace)"},
	{"disk-full", aimWorker, 2, 2 * time.Second, 6 * time.Second, "a worker's disk has no room for a while (strace)"},
	{"clock", aimWorker, 4, 0, 0, "the wall clock of a worker is set up to two days ahead or back"},
	{"delete-consumer", aimDurable, 2, 0, 0, "the durable consumer is deleted"},
	{"change-consumer", aimDurable, 2, 0, 0, "AckWait and MaxAckPending of the durable consumer are changed"},
	{"handler", aimAlways, 0, 0, 0, "orders whose handlers are slow, fail, panic, hang, or kill their process"},
	{"copies", aimAlways, 0, 0, 0, "orders that are published several times, some many times at once"},
	{"reuse", aimAlways, 0, 0, 0, "IDs that are used again with another payload"},
}

func kindNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// strike is one fault of a plan.
type strike struct {
	At     time.Duration // since the start
	Kind   string
	Target int           // a worker, the sink behind them, or a link in the same order; links have one more: that of the producers
	Length time.Duration // how long it lasts
	Draw   uint64        // decides what else there is to decide
}

// planned is the plan of a run: a pure function of its options. The mean distance between two strikes is o.every.
func planned(o options) (plan []strike) {
	random := rand.New(rand.NewPCG(o.seed, 0x746f7274))
	var some []kind
	total := 0
	for _, k := range kinds {
		if k.aim != aimAlways && slices.Contains(o.faults, k.name) {
			some, total = append(some, k), total+k.weight
		}
	}
	if total == 0 {
		return nil
	}
	const warmUp = time.Second
	for at := warmUp; at < o.length; at += time.Duration(random.Int64N(int64(2 * o.every))) {
		k := pick(some, random.IntN(total))
		s := strike{At: at, Kind: k.name, Draw: random.Uint64(), Length: k.least}
		if k.most > k.least {
			s.Length += time.Duration(random.Int64N(int64(k.most - k.least)))
		}
		switch k.aim {
		case aimWorker, aimDurable:
			s.Target = random.IntN(o.workers + 1)
		case aimLink:
			s.Target = random.IntN(o.workers + 2)
		}
		plan = append(plan, s)
	}
	return plan
}

// pick finds the kind at a place among the weights.
func pick(some []kind, at int) kind {
	for _, k := range some {
		if at -= k.weight; at < 0 {
			return k
		}
	}
	return some[len(some)-1]
}
