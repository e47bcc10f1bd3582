package diskfault

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// call is one system call as strace saw it.
type call struct {
	thread   string
	name     string
	args     []string // as strace prints them, strings with their quotes and in hex
	result   string
	ended    bool // false: the process ended within it
	failed   bool
	injected bool // the kernel never saw it
	delayed  bool
}

// step is one moment of a trace: a call begins, or it has ended.
type step struct {
	call *call
	end  bool
}

// trace is what strace saw, in the order in which it saw it. One call never ends before another begins
// unless it did so for the kernel, too: strace stops a thread at both moments.
type trace struct {
	steps  []step
	killed bool
}

var (
	lineForm   = regexp.MustCompile(`^(\d+) +(.*)$`)
	resumeForm = regexp.MustCompile(`^<\.\.\. (\w+) resumed>(.*)$`)
)

const (
	unfinishedMark = " <unfinished ...>"
	longestLine    = 256 << 20
)

// readTrace parses the output of strace -f -y -xx.
func readTrace(in io.Reader) (*trace, error) {
	t := &trace{}
	open := map[string]*call{}
	begun := map[string]string{}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	for lines.Scan() {
		m := lineForm.FindStringSubmatch(lines.Text())
		if m == nil {
			return nil, fmt.Errorf("trace: line %.100q has no thread", lines.Text())
		}
		thread, text := m[1], m[2]
		switch {
		case strings.HasPrefix(text, "+++ killed"):
			t.killed = true
		case strings.HasPrefix(text, "+++"), strings.HasPrefix(text, "---"):
		case strings.HasSuffix(text, unfinishedMark):
			begun[thread] = strings.TrimSuffix(text, unfinishedMark)
			open[thread] = &call{thread: thread}
			t.steps = append(t.steps, step{call: open[thread]})
		case resumeForm.MatchString(text) && open[thread] != nil:
			c := open[thread]
			if err := c.parse(begun[thread] + resumeForm.FindStringSubmatch(text)[2]); err != nil {
				return nil, err
			}
			delete(open, thread)
			t.steps = append(t.steps, step{c, true})
		case resumeForm.MatchString(text):
		default:
			c := &call{thread: thread}
			if err := c.parse(text); err != nil {
				return nil, err
			}
			t.steps = append(t.steps, step{call: c}, step{c, true})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	for thread, c := range open {
		// The process was killed in it. What it may have done counts as done in part.
		if err := c.parse(begun[thread] + ") = ?"); err != nil {
			return nil, err
		}
		c.ended = false
	}
	return t, nil
}

// parse takes a whole call: name(args) = result. A call whose result is "?" never came back.
func (c *call) parse(text string) error {
	name, rest, ok := strings.Cut(text, "(")
	at := strings.LastIndex(rest, ") ")
	for at > 0 && !strings.HasPrefix(strings.TrimLeft(rest[at+2:], " "), "= ") {
		at = strings.LastIndex(rest[:at], ") ")
	}
	if !ok || at < 0 {
		return fmt.Errorf("trace: %.200q is no call", text)
	}
	c.name, c.args = name, splitArgs(rest[:at])
	result := strings.TrimPrefix(strings.TrimLeft(rest[at+2:], " "), "= ")
	c.injected = strings.Contains(result, "(INJECTED)")
	c.delayed = strings.Contains(result, "(DELAYED)")
	c.result, _, _ = strings.Cut(result, " ")
	c.failed = c.result == "-1"
	c.ended = c.result != "?"
	return nil
}

// splitArgs splits at the commas outside of quotes and brackets.
func splitArgs(s string) []string {
	var args []string
	depth, start, quoted := 0, 0, false
	for i := range len(s) {
		switch s[i] {
		case '"':
			quoted = !quoted
		case '<', '[', '{', '(':
			if !quoted {
				depth++
			}
		case '>', ']', '}', ')':
			if !quoted {
				depth--
			}
		case ',':
			if !quoted && depth == 0 {
				args = append(args, strings.TrimSpace(s[start:i]))
				start = i + 1
			}
		}
	}
	return append(args, strings.TrimSpace(s[start:]))
}

// did reports whether the kernel did the call: it came back, without a fault put in and without an error.
func (c *call) did() bool { return !c.failed && !c.injected }

// number is the i-th argument.
func (c *call) number(i int) int64 {
	if i >= len(c.args) {
		return 0
	}
	n, _ := strconv.ParseInt(c.args[i], 0, 64)
	return n
}

// text is the i-th argument, a string.
func (c *call) text(i int) string {
	return unhex(strings.Trim(strings.TrimSuffix(c.args[i], "..."), `"`))
}

// file is the path behind the descriptor that is the i-th argument.
func (c *call) file(i int) string { return pathOf(c.args[i]) }

// descriptor is the number of it.
func (c *call) descriptor(i int) string {
	n, _, _ := strings.Cut(c.args[i], "<")
	return n
}

// opened is the path behind the descriptor that the call returned.
func (c *call) opened() string { return pathOf(c.result) }

// pathOf takes 5</path>.
func pathOf(s string) string {
	_, path, ok := strings.Cut(s, "<")
	if !ok {
		return ""
	}
	return unhex(strings.TrimSuffix(path, ">"))
}

// unhex decodes \x61\x62; what is not in that form stays as it is.
func unhex(s string) string {
	if !strings.HasPrefix(s, `\x`) {
		return s
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, `\x`, ""))
	if err != nil {
		return s
	}
	return string(b)
}

// said is the line that the call writes to the output of the worker, if it does.
func (c *call) said() (line string, ok bool) {
	if c.name != "write" || len(c.args) == 0 || c.descriptor(0) != "1" {
		return "", false
	}
	return strings.TrimSuffix(c.text(1), "\n"), true
}
