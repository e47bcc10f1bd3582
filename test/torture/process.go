package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a child that is started again whenever it ends, as a supervisor of services does.
type process struct {
	base spec
	dir  string // of its journal and its output

	mu      sync.Mutex
	next    launch // how it starts the next time
	wall    time.Duration
	pid     int // of the process itself, known when it is ready; 0: not
	in      io.WriteCloser
	down    time.Duration // how long it stays down when it ends the next time
	between func()        // runs while it is down, once
	ends    bool          // it is not started again
	exits   map[string]int
	starts  int
}

// launch is how one life of a process begins.
type launch struct {
	point string
	nth   int64
	disk  []string // strace's expressions of faults
}

// run keeps the process alive until it is ended.
func (p *process) run() error {
	for {
		if over, err := p.live(); over || err != nil {
			return err
		}
		p.mu.Lock()
		down := p.down
		p.down = 0
		between := p.between
		p.between = nil
		p.mu.Unlock()
		_ = pause(context.Background(), down)
		if between != nil {
			between()
		}
	}
}

// live is one life.
func (p *process) live() (over bool, err error) {
	p.mu.Lock()
	if p.ends {
		p.mu.Unlock()
		return true, nil
	}
	cmd, out, err := p.command()
	if err == nil {
		err = cmd.Start()
	}
	p.mu.Unlock()
	if err != nil {
		return true, fmt.Errorf("start %s: %w", p.base.Name, err)
	}
	p.hear(out)
	err = cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pid, p.in = 0, nil
	p.exits[wayOf(err)]++
	return p.ends, nil
}

// command makes the next life. The lock is held.
func (p *process) command() (*exec.Cmd, io.Reader, error) {
	s := p.base
	s.Point, s.Nth = p.next.point, p.next.nth
	disk := p.next.disk
	p.next = launch{}
	p.starts++
	text, err := json.Marshal(s)
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	args := []string{self}
	if len(disk) > 0 {
		args = []string{"strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace=fdatasync,pwrite64,fallocate,ftruncate"}
		for _, d := range disk {
			args = append(args, "-e", "inject="+d)
		}
		args = append(args, "--", self)
	}
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...) // ended by signals
	cmd.Env = append(os.Environ(), specVariable+"="+string(text))
	errs, err := os.OpenFile(filepath.Join(p.dir, s.Name+".err"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	p.in, err = cmd.StdinPipe()
	return cmd, out, err
}

// hear reads what the process says until it has ended.
func (p *process) hear(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), ready); ok {
			pid, err := strconv.Atoi(text)
			p.mu.Lock()
			if err == nil {
				p.pid = pid
			}
			if p.wall != 0 && p.in != nil {
				_, _ = fmt.Fprintln(p.in, sayWall+p.wall.String())
			}
			p.mu.Unlock()
		}
	}
}

// wayOf names how a process has ended.
func wayOf(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "ended"
	case errors.As(err, &exit) && !exit.Exited():
		return exit.String()
	case errors.As(err, &exit):
		return fmt.Sprintf("exit %d", exit.ExitCode())
	}
	return err.Error()
}

// kill ends the present life and lets the next one begin so, after a while. A process that is not ready is not killed.
func (p *process) kill(next launch, down time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 {
		return false
	}
	p.next, p.down = next, down
	_ = syscall.Kill(p.pid, syscall.SIGKILL)
	return true
}

// signal sends a signal to the process, if it is ready.
func (p *process) signal(s syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid != 0 && syscall.Kill(p.pid, s) == nil
}

// setWall sets the wall clock of this life and of those that follow.
func (p *process) setWall(d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wall = d
	if p.pid == 0 || p.in == nil {
		return false
	}
	_, err := fmt.Fprintln(p.in, sayWall+d.String())
	return err == nil
}

// end asks the process to end in order, and starts it no more.
func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = true
	if p.in != nil {
		_ = p.in.Close()
	}
}

// awaitReady waits until the process is ready.
func (p *process) awaitReady(ctx context.Context) error {
	for {
		p.mu.Lock()
		ok := p.pid != 0
		p.mu.Unlock()
		if ok {
			return nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("%s is not ready: %w", p.base.Name, err)
		}
	}
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.in != nil
}
