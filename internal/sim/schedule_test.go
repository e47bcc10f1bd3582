package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// op is a kind of step.
type op uint8

const (
	opPublish op = iota
	opCopy
	opDeliver
	opReturn
	opTime
	opWall
	opPause
	opCrashAt
	opCrash
	opFault
	opLoseAnswers
	opServerRestart
	opRelay
	opFetch
	opFinish
	opRestart
	opRedrive
	opMoveFloor
	opCount
)

// step is one thing that happens. Its arguments are all that it depends on besides the world, so that leaving a step
// out changes no other one.
type step struct {
	op   op
	a, b uint8
}

// schedule is one life of the world: its configuration and its steps.
type schedule struct {
	setup uint8
	steps []step
}

// maxSteps bounds what a fuzzer may ask for.
const maxSteps = 96

// decode makes a schedule of any bytes.
func decode(data []byte) schedule {
	if len(data) == 0 {
		return schedule{}
	}
	s := schedule{setup: data[0]}
	for rest := data[1:]; len(rest) >= 3 && len(s.steps) < maxSteps; rest = rest[3:] {
		s.steps = append(s.steps, step{op(rest[0] % uint8(opCount)), rest[1], rest[2]})
	}
	return s
}

// encode is the form that decode reads.
func (s schedule) encode() []byte {
	data := []byte{s.setup}
	for _, one := range s.steps {
		data = append(data, byte(one.op), one.a, one.b)
	}
	return data
}

// weights say how often a step is drawn: mostly work, so that there is something to disturb.
var weights = [opCount]int{
	opPublish: 14, opCopy: 5, opDeliver: 30, opReturn: 9, opTime: 10, opWall: 2, opPause: 7, opCrashAt: 6, opCrash: 2,
	opFault: 6, opLoseAnswers: 3, opServerRestart: 2, opRelay: 10, opFetch: 4, opFinish: 4, opRestart: 2, opRedrive: 4,
	opMoveFloor: 3,
}

// draw makes the schedule of a seed.
func draw(seed uint64) schedule {
	r := rand.New(rand.NewPCG(seed, 0x6f6e65666f6c64))
	all := 0
	for _, w := range weights {
		all += w
	}
	s := schedule{setup: uint8(r.Uint32()), steps: []step{{opPublish, uint8(r.Uint32()), uint8(r.Uint32())}}}
	for range 6 + r.IntN(42) {
		if r.IntN(24) == 0 {
			s.steps = append(s.steps, overtaken(r)...)
			continue
		}
		n, chosen := r.IntN(all), opPublish
		for n >= weights[chosen] {
			n -= weights[chosen]
			chosen++
		}
		s.steps = append(s.steps, step{chosen, uint8(r.Uint32()), uint8(r.Uint32())})
	}
	return s
}

// overtaken are steps that rarely meet by chance: somebody stands still on the way of a message until its claim and the
// server's patience are over, and the message goes to the other process.
func overtaken(r *rand.Rand) []step {
	arg := func() uint8 { return uint8(r.Uint32()) }
	other := step{opDeliver, arg() | 0xc0, arg() & 0x1f}
	return []step{{opPublish, arg() & 3, 0}, {opPause, uint8(r.IntN(int(pointCount))), 0}, {opDeliver, arg() & 0x07, arg()},
		{opTime, 5, 0}, other, other, {opReturn, 0, 0}}
}

// setup is how the consumer of a schedule is configured.
type setup struct {
	maxAttempts int
	park        bool
	lease       time.Duration
}

const (
	ackWait     = 30 * time.Second
	retention   = 10 * time.Minute
	retryMin    = time.Second
	retryMax    = time.Minute
	feedLease   = 20 * time.Second
	duplicates  = 2 * time.Minute // window of the target stream
	rowAttempts = 3
)

func (s schedule) config() setup {
	leases := []time.Duration{12 * time.Second, ackWait, 50 * time.Second}
	return setup{maxAttempts: 1 + int(s.setup%4), park: s.setup>>2%4 == 3, lease: leases[s.setup>>4%3]}
}

// point is a place in the code at which something else can happen, or the process can die.
type point uint8

const (
	atReceived point = iota
	atClaimed
	atHandled
	atCommitting // the store has accepted the entry and not written it
	atWritten    // the store has written it and not returned
	atCommitted
	atAcked
	atFetched
	atPublished
	atSettled
	pointCount
)

var pointNames = [pointCount]string{"received", "claimed", "handled", "inside the commit, before the write", "inside the commit, after the write",
	"committed", "acked", "fetched", "published", "settled"}

func (p point) String() string { return "[" + pointNames[p] + "]" }

func (s step) point() point { return point(s.a % uint8(pointCount)) }

// outcome is how a handler ends.
type outcome uint8

const (
	succeeds outcome = iota
	fails
	failsForGood
	asksForTime
	panics
)

var outcomes = []outcome{succeeds, succeeds, succeeds, succeeds, fails, fails, failsForGood, asksForTime, panics, fails, succeeds, succeeds}

var outcomeNames = []string{"succeeds", "fails", "fails for good", "asks to come again after 20s", "panics"}

func (o outcome) String() string { return outcomeNames[o] }

// The arguments of a delivery: which message, to which process, how its handler ends, and whether it stays open for
// the steps that follow.
func (s step) which() int       { return int(s.a & 7) }
func (s step) process() int     { return int(s.a >> 6 / 3) } // one in four goes to the second one
func (s step) outcome() outcome { return outcomes[int(s.b&31)%len(outcomes)] }
func (s step) stays() bool      { return s.b>>5 >= 5 }

// time is how much of it passes.
func (s step) time() time.Duration {
	return []time.Duration{time.Second, 5 * time.Second, 21 * time.Second, ackWait + time.Second, ackWait + time.Second, 51 * time.Second,
		duplicates + time.Second, retention + time.Second}[s.a%8]
}

// wall is how far the wall clock is set.
func (s step) wall() time.Duration {
	return []time.Duration{-26 * time.Hour, -11 * time.Minute, -time.Minute, time.Minute, 11 * time.Minute, 26 * time.Hour}[s.a%6]
}

// fault is what a store may do at its next call.
type fault uint8

const (
	beginUnavailable fault = iota
	beginAnswerLost
	commitUnavailable
	commitUnknownAbsent
	commitUnknownStored
	releaseUnavailable
	settleUnknownAbsent
	settleUnknownDone
	faultCount
)

var faultNames = [faultCount]string{"the next Begin is not reached", "the answer of the next Begin is lost", "the next Commit is not reached",
	"the outcome of the next Commit is unknown, and nothing is stored", "the outcome of the next Commit is unknown, and all is stored",
	"the next Release is not reached", "the outcome of the next Settle is unknown, and nothing is done",
	"the outcome of the next Settle is unknown, and all is done"}

func (s step) fault() fault { return fault(s.a % uint8(faultCount)) }

// reply is what becomes of a row that is published.
type reply uint8

const (
	arrives reply = iota
	isLost
	arrivesUnanswered
	isRefused
)

var replyNames = []string{"arrives", "is lost", "arrives and the answer is lost", "is refused"}

// replies are for the rows of one fetch, in their order.
func (s step) replies() (all []reply) {
	for i := range 4 {
		if s.b&0x80 != 0 { // half of the relay's steps meet no trouble
			all = append(all, reply(s.b>>(i*2)&3))
		} else {
			all = append(all, arrives)
		}
	}
	return all
}

func (s step) rows() int { return 1 + int(s.a%4) }

// String says what the step does.
func (s step) String() string {
	switch s.op {
	case opPublish:
		return fmt.Sprintf("publish ID %q with payload %q", s.id(), s.payload())
	case opCopy:
		return fmt.Sprintf("publish a copy of message %d (mod what there is)", s.a)
	case opDeliver:
		stays := ""
		if s.stays() {
			stays = ", and stays open until the next return"
		}
		return fmt.Sprintf("deliver the due message %d (mod what there is) to process %s; its handler %s%s", s.which(), processName(s.process()), s.outcome(), stays)
	case opReturn:
		return "return from what stays open"
	case opTime:
		return fmt.Sprintf("%v pass", s.time())
	case opWall:
		return fmt.Sprintf("the wall clock is set by %v", s.wall())
	case opPause:
		return fmt.Sprintf("whoever gets to %v next stays there until the next return", s.point())
	case opCrashAt:
		return fmt.Sprintf("the process dies when it gets to %v next", s.point())
	case opFault:
		return faultNames[s.fault()]
	case opLoseAnswers:
		return fmt.Sprintf("the next %d answers to the server are lost", 1+s.a%3)
	case opServerRestart:
		return fmt.Sprintf("the server restarts and forgets the last %d acks", 1+s.a%4)
	case opRelay, opFetch:
		rest := ""
		if s.op == opRelay {
			rest = ", and settles"
		}
		var fates []string
		for _, r := range s.replies()[:s.rows()] {
			fates = append(fates, replyNames[r])
		}
		return fmt.Sprintf("the relay fetches up to %d rows %q%s", s.rows(), fates, rest)
	case opFinish:
		return "the relay settles what was answered"
	case opRedrive:
		return fmt.Sprintf("dead letter %d (mod what there is) is redriven", s.a)
	}
	return map[op]string{opCrash: "the process dies", opRestart: "the process stops in order and starts again",
		opMoveFloor: "the floor follows the server's ack floor"}[s.op]
}

// id and payload are what is published. Payloads say in which counter the handler counts.
func (s step) id() string {
	if s.a%16 == 15 {
		return "" // a producer that gives none
	}
	return string('a' + rune(s.a%4))
}

func (s step) payload() string {
	p := s.id() + "1"
	if s.b%8 == 7 {
		p = s.id() + "2" // the ID was used for something else
	}
	return p
}
