package main

import "time"

// The streams of a run. Worker p consumes the subjects orders.p.> of the first and sends to effects.p of the second,
// which the sink consumes.
const (
	ordersStream  = "ORDERS"
	effectsStream = "EFFECTS"
	deadStream    = "ONEFOLD_DEAD"
	sinkName      = "sink"
)

// order is what producers publish. Two orders with one ID and another Variant are one ID with two payloads.
type order struct {
	ID      string
	Account string
	Mood    mood
	Variant int
}

// effect is what a worker sends for an order: the N-th of its account.
type effect struct {
	Order   string
	Account string
	N       int
}

// account is the state that a worker keeps of one account.
type account struct {
	N        int       // orders that took effect
	Last     time.Time // when the message of the last one was stored
	Disorder []string  // orders that ran behind a later one
}

// mood is how the handler of an order behaves.
type mood string

const (
	moodGood   mood = ""
	moodSlow   mood = "slow"   // takes some time
	moodFails  mood = "fails"  // fails twice
	moodLater  mood = "later"  // asks for a time of its own, once
	moodPoison mood = "poison" // can never be handled
	moodPanics mood = "panics" // panics once
	moodHangs  mood = "hangs"  // ignores the end of its context, once
	moodKills  mood = "kills"  // ends its process whenever it runs
)

// moods are the moods of bad orders with their weights. What kills its process costs three deaths.
var moods = []struct {
	mood   mood
	weight int
}{{moodSlow, 40}, {moodFails, 30}, {moodLater, 10}, {moodPoison, 10}, {moodPanics, 8}, {moodHangs, 2}, {moodKills, 1}}
