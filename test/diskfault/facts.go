package diskfault

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// The words that a worker begins its lines with. A line is written by one system call, before (try ...) or
// after the store is asked.
const (
	sayTry       = "try"       // id: a commit begins
	sayAcked     = "acked"     // id token: the commit is answered with no error
	sayRefused   = "refused"   // id class: it is answered "not stored"
	sayUnknown   = "unknown"   // id class
	sayDenied    = "denied"    // id class: Begin gave no claim
	sayPublished = "published" // id effect: a row is handed out
	saySettling  = "settling"  // id effect state
	saySettled   = "settled"   // id effect state
	sayErasing   = "erasing"   // id
	sayErased    = "erased"    // id
	sayStopped   = "stopped"   // class: the store has stopped for good
	sayAfter     = "after"     // method class: the answer of a method after the stop
	sayError     = "error"     // method class: some other error
	sayOpened    = "opened"    // epoch
	sayUnopened  = "unopened"  // class
	sayClosing   = "closing"   // what fails from here on is told by Close, or by the next open
	sayClosed    = "closed"    // class
	sayEnd       = "end"
)

// fate is what became of an entry, as far as the worker was told.
type fate uint8

const (
	untried fate = iota
	tried        // it may be stored or not
	refused      // known to be not stored
	acked        // known to be stored
)

// rowFate is what became of an effect.
type rowFate uint8

const (
	waiting rowFate = iota
	settling
	sent
	parked
)

// fact is what is known of one entry.
type fact struct {
	Fate      fate
	Published bool // an effect of it has left
	Erasing   bool
	Erased    bool
	Rows      [effectsN]rowFate
}

// facts are what a worker has said until some moment. The zero value is the beginning.
type facts struct {
	Of      map[int]fact
	Token   uint64 // highest that was said
	Epoch   uint64
	Opened  bool
	Stopped bool
	Ended   bool
}

func (f *facts) clone() facts {
	c := *f
	if c.Of = maps.Clone(f.Of); c.Of == nil {
		c.Of = map[int]fact{}
	}
	return c
}

// hear takes a line in. What it returns is a breach of a rule that can be seen without looking at the disk.
func (f *facts) hear(line string) (breach string) {
	words := append(strings.Fields(line), "", "", "")
	id, _ := strconv.Atoi(words[1])
	if f.Of == nil {
		f.Of = map[int]fact{}
	}
	one := f.Of[id]
	row, _ := strconv.Atoi(words[2])
	switch words[0] {
	case sayTry:
		if one.Fate != acked {
			one.Fate = tried
		}
	case sayRefused:
		one.Fate = refused
	case sayAcked:
		one.Fate = acked
		token, _ := strconv.ParseUint(words[2], 10, 64)
		f.Token = max(f.Token, token)
	case sayPublished:
		one.Published = true
		if one.Fate == refused {
			breach = "an effect left of an entry that was answered as not stored"
		}
		if one.Rows[row] == sent {
			breach = "an effect left again that was settled as sent"
		}
	case saySettling:
		one.Rows[row] = settling
	case saySettled:
		one.Rows[row] = map[string]rowFate{"sent": sent, "parked": parked}[words[3]]
	case sayErasing:
		one.Erasing = true
	case sayErased:
		one.Erased = true
	case sayOpened:
		f.Opened, f.Stopped, f.Ended = true, false, false
		f.Epoch, _ = strconv.ParseUint(words[1], 10, 64)
		return ""
	default:
		return f.hearOther(words, line)
	}
	f.Of[id] = one
	if f.Stopped {
		breach = "the store went on after it had stopped"
	}
	if breach != "" {
		return fmt.Sprintf("%s: %q", breach, line)
	}
	return ""
}

// hearOther takes lines in that are about no entry.
func (f *facts) hearOther(words []string, line string) string {
	switch words[0] {
	case sayStopped:
		f.Stopped = true
	case sayAfter:
		if words[2] != "damaged" {
			return "a method of a stopped store says something else: " + line
		}
	case sayEnd:
		f.Ended = true
	}
	if strings.Contains(line, "unnamed") {
		return "an error without a name: " + line
	}
	return ""
}
